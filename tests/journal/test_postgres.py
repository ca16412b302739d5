"""The store in PostgreSQL: several writers, and a failed or untrusted server."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from support.peers.postgres import PASSWORD, PostgresServer
from support.samples.state import DEK, STORE_ID

from keyhouse.base.errors import UnavailableError
from keyhouse.base.secret import Secret
from keyhouse.journal import Continuation, Journal, NotDurableError
from keyhouse.journal.offline.postgres_schema import create_schema
from keyhouse.journal.shared.log_parts import DatabaseParts
from keyhouse.journal.shared.url import store_url
from keyhouse.journal.store.postgres import PostgresStore
from keyhouse.journal.store.postgres_address import awaited
from keyhouse.journal.store.postgres_connection import ConnectionDroppedError, connect
from keyhouse.journal.store.postgres_database import LARGEST_NOTE, PostgresDatabase
from keyhouse.journal.store.postgres_turns import KEY
from keyhouse.journal.store.protocol import (
    Beside,
    Note,
    OutcomeUnknownError,
    StoreConflictError,
    StoreDamagedError,
    StoreUnreadableError,
    SupersededError,
)
from keyhouse.transparency.tiles import Tile

OTHER_ID = bytes(16)
BACKENDS = (
    "SELECT {}(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query LIKE '%record%'"
)


class Shared:
    """A database, and journals with their own stores on the database."""

    def __init__(self, server: PostgresServer, name: str) -> None:
        self.server, self.name = server, name
        self.url = server.url(name)
        self.stores: list[PostgresStore] = []
        self.databases: list[PostgresDatabase] = []

    async def store(self) -> PostgresStore:
        self.stores.append(await PostgresStore.open(self.url, STORE_ID))
        return self.stores[-1]

    def database(self) -> PostgresDatabase:
        self.databases.append(PostgresDatabase(self.url))
        return self.databases[-1]

    async def created(self) -> Journal:
        store = await self.store()
        return await Journal.create(store, store_id=STORE_ID, dek=DEK, base=[b"base"])

    async def joined(self) -> Journal:
        return (await Journal.open(await self.store(), store_id=STORE_ID, dek=DEK))[0]

    async def events(self) -> tuple[bytes, ...]:
        return (await Journal.open(await self.store(), store_id=STORE_ID, dek=DEK))[1].events

    async def ask(self, statement: str) -> None:
        await self.server.ask(statement, database=self.name)


@pytest.fixture
async def shared(postgres: PostgresServer) -> AsyncIterator[Shared]:
    shared = Shared(postgres, await postgres.database())
    yield shared
    for store in shared.stores:
        await store.close()
    for database in shared.databases:
        await database.close()


async def until(server: PostgresServer, statement: str) -> None:
    """Return when ``statement`` has rows."""
    while not await server.ask(statement):
        pass


@asynccontextmanager
async def standby_missing(server: PostgresServer) -> AsyncIterator[None]:
    """Let every commit wait for a missing standby."""
    await server.awaited("missing")
    try:
        yield
    finally:
        await server.awaited("")


async def test_writers_outrun_each_other_and_lose_nothing(shared: Shared) -> None:
    one = await shared.created()
    journals = [one, *[await shared.joined() for _ in range(3)]]

    async def write(journal: Journal, number: int) -> list[bytes]:
        written = []
        for count in range(10):
            written.append(f"{number}.{count}".encode())
            await _append(journal, written[-1])
        return written

    written = await asyncio.gather(*map(write, journals, range(4)))
    events = await shared.events()
    assert sorted(events) == sorted(event for each in written for event in each)
    for each in written:
        assert [event for event in events if event in each] == each


async def _append(journal: Journal, event: bytes) -> None:
    try:
        await journal.append([event])
    except StoreConflictError:
        while True:  # a turn is only a hint
            with suppress(StoreConflictError):
                async with journal.store.turn():
                    await journal.catch_up()
                    await journal.append([event])
                    return


@asynccontextmanager
async def turn(store: PostgresStore) -> AsyncIterator[int]:
    """Begin a turn with the lock, on a connection; yield the process with the lock."""
    while True:
        async with store.turn():
            connection = store._turns._connection
            if connection is not None:
                assert store._turns._began
                yield connection.server_pid
                return
        await asyncio.sleep(0)


async def test_the_turn_holds_the_others_back_until_it_ends(shared: Shared) -> None:
    one, other = await shared.created(), await shared.joined()
    await shared.stores[1].settle()  # a new connection raises the fence
    async with turn(shared.stores[0]):
        await one.catch_up()  # for the new fence
        with pytest.raises(StoreConflictError):
            await other.append([b"other"])
        await one.append([b"first"])
    await one.append([b"second"])  # a turn does not block its holder
    async with turn(shared.stores[1]):
        await other.catch_up()
        await other.append([b"other"])
    assert await shared.events() == (b"first", b"second", b"other")


async def test_a_turn_locks_no_row(shared: Shared) -> None:
    """With a row lock, a writer whose network fails in its turn would stop all others."""
    one = await shared.created()
    async with turn(shared.stores[0]):
        await one.catch_up()
        await shared.ask("SELECT 1 FROM keyhouse.head FOR UPDATE NOWAIT")


async def test_the_server_ends_a_turn_in_which_nothing_comes(shared: Shared) -> None:
    one, other = await shared.created(), await shared.joined()
    async with turn(shared.stores[0]) as pid:
        await until(
            shared.server,
            f"SELECT 1 WHERE {pid} NOT IN (SELECT pid FROM pg_stat_activity)",  # noqa: S608
        )
        await other.append([b"other"])
        with pytest.raises(StoreConflictError):
            await one.append([b"late"])
    await one.catch_up()
    await one.append([b"one"])
    assert await shared.events() == (b"other", b"one")


@pytest.fixture
def patient_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let turns and waits for turns last as long as a test needs.

    On a busy machine, a round trip takes as long as to a distant server. A writer would then pause
    after its turn, or replace its connection.
    """
    module = "keyhouse.journal.store.postgres_turns"
    monkeypatch.setattr(f"{module}._LIMITS", "SELECT 1")
    for limit in ("SILENT", "LONGEST", "DISTANT"):
        monkeypatch.setattr(f"{module}.{limit}", 60.0)


def counted_reads(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the list of statements of ``store`` on the reading connection."""
    reader, statements = store._reader, list[str]()
    assert reader is not None
    fetch = reader.fetch

    def counted(statement: str, *values: object, columns: int) -> Awaitable[list[Any]]:
        statements.append(statement)
        return fetch(statement, *values, columns=columns)

    monkeypatch.setattr(reader, "fetch", counted)
    return statements


@pytest.mark.usefixtures("patient_turns")
async def test_a_turn_begins_with_all_that_was_written_before_it(
    shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lock and records need one round trip, even after a wait for the lock."""
    one, other = await shared.created(), await shared.joined()
    async with turn(shared.stores[1]):
        await other.catch_up()
    async with turn(shared.stores[0]):
        waiting = asyncio.ensure_future(shared.stores[1]._turns.begin(STORE_ID, 1))
        await until(
            shared.server,
            "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted",
        )
        await one.append([b"before"])
    assert await waiting
    shared.stores[1]._in_turn = True
    statements = counted_reads(shared.stores[1], monkeypatch)
    found = await other.catch_up()
    assert isinstance(found, Continuation)
    assert found.events == (b"before",)
    assert statements == []
    await other.append([b"in turn"])
    assert (await shared.events())[-1] == b"in turn"


@pytest.mark.usefixtures("patient_turns")
async def test_records_of_a_turn_are_not_used_when_newer_ones_were_read(shared: Shared) -> None:
    """They would look like a rollback of the journal."""
    one, other = await shared.created(), await shared.joined()
    store = shared.stores[1]
    async with turn(store):
        rows = store._turns._rows
        assert rows is not None
        shared.stores[0]._in_turn = True  # as after an unsuccessful wait
        await one.append([b"newer"])
        assert store._turns.pop_rows() == rows
        await other.catch_up()
        assert other.position == one.position
        store._turns._rows = rows
        await other.catch_up()
        assert other.position == one.position
        store._turns._rows = rows
        await other.append([b"event"])
        assert store._turns.pop_rows() is None  # the rows were older than the write
        store._turns._rows = rows
        await store.settle()
        assert store._turns.pop_rows() is None


async def test_a_turn_that_does_not_come_is_not_waited_for(shared: Shared) -> None:
    """The turn is a hint: a writer does not wait until the holder of the lock ends."""
    one = await shared.created()
    async with turn(shared.stores[0]):
        pass
    holder = await connect(shared.url)
    await holder.execute("SELECT pg_advisory_lock($1, $2)", *KEY)
    with pytest.raises(StoreConflictError):
        await one.append([b"gives way"])
    async with shared.stores[0].turn():
        await one.append([b"event"])
    await holder.close()
    assert await shared.events() == (b"event",)


async def test_compaction_and_a_writer_at_once(shared: Shared) -> None:
    one, other = await shared.created(), await shared.joined()
    async with one.store.turn():
        await one.begin_epoch([b"x" * 600_000] * 5)
    with pytest.raises(StoreConflictError):
        await other.append([b"before it catches up"])
    await other.catch_up()
    await other.append([b"event"])
    assert await shared.events() == (b"event",)


@pytest.mark.parametrize(
    "strike",
    ["pg_cancel_backend", "pg_terminate_backend"],
)
async def test_a_commit_that_was_cut_short_is_settled(shared: Shared, strike: str) -> None:
    """The commit is on this machine only, until the fence waits for the standby as well."""
    journal = await shared.created()
    async with standby_missing(shared.server):
        writing = asyncio.create_task(journal.append([b"event"]))
        await until(shared.server, BACKENDS.format("abs"))
        await shared.ask(BACKENDS.format(strike))
        # The first commit of the next connection waits for the standby, too.
        await until(
            shared.server,
            "SELECT 1 FROM pg_stat_activity"
            " WHERE wait_event = 'SyncRep' AND query LIKE '%emit_message%'",
        )
        assert not writing.done()
    assert (await writing).sequence == 2
    assert await shared.events() == (b"event",)


async def test_connections_that_end_at_once_are_renewed_at_once(shared: Shared) -> None:
    """They are renewed without a request, so a write does not wait for several new connections.

    A server may end each new connection. So connections that were never used are not renewed.
    """
    journal = await shared.created()
    await journal.append([b"event"])
    store = shared.stores[0]
    await store.head()

    async def end_all() -> None:
        before = store._writer, store._reader
        await shared.server.ask(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"  # noqa: S608 - a name
            f" WHERE datname = '{shared.name}'"
        )
        while not all(each is not None and each.closed for each in before):  # noqa: ASYNC110
            await asyncio.sleep(0)
        await asyncio.sleep(0)  # the store receives the ends after that

    await end_all()
    assert len(store._renewing) == 2
    await asyncio.gather(*store._renewing)
    assert store._writer is not None
    assert store._reader is not None
    assert not store._writer.closed
    assert not store._reader.closed
    writer = store._writer
    assert await store.settle() == journal.position
    assert store._writer is writer  # no write was sent on this connection: no fence is needed
    await end_all()
    assert store._renewing == set()
    await journal.append([b"next"])
    assert await shared.events() == (b"event", b"next")


async def test_a_lost_connection_is_replaced_in_few_round_trips(shared: Shared) -> None:
    """Round trips are slow over a distance, and on a busy machine."""
    await shared.created()
    async with counting(shared.server.address) as (port, trips):
        to = f"postgresql://keyhouse:{PASSWORD}@127.0.0.1:{port}/{shared.name}"
        store = await PostgresStore.open(Secret(to.encode()), STORE_ID)
        journal, _ = await Journal.open(store, store_id=STORE_ID, dek=DEK)
        trips.clear()
        assert await store.settle() == journal.position
        # Login 3, settings 1, checks 2, a commit 1, the fence 2.
        assert len(trips) <= 9
        trips.clear()
        await journal.append([b"event"])
        assert len(trips) <= 2
        await store.close()


@asynccontextmanager
async def counting(address: str) -> AsyncIterator[tuple[int, list[None]]]:
    """Yield a port of a proxy to the server, and a list with an element for each round trip."""
    trips = list[None]()
    forwarding = set[asyncio.Task[None]]()

    async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_reader, server_writer = await asyncio.open_connection(address, 5432)
        asks = True  # whether the last bytes came from the server

        async def forward(
            source: asyncio.StreamReader, to: asyncio.StreamWriter, *, up: bool
        ) -> None:
            nonlocal asks
            try:
                while data := await source.read(65536):
                    if up and asks:
                        trips.append(None)
                    asks = not up
                    to.write(data)
            finally:
                to.close()

        for task in (
            asyncio.create_task(forward(reader, server_writer, up=True)),
            asyncio.create_task(forward(server_reader, writer, up=False)),
        ):
            forwarding.add(task)

    server = await asyncio.start_server(accepted, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1], trips
    finally:
        server.close()
        for task in forwarding:
            task.cancel()
        await asyncio.gather(*forwarding, return_exceptions=True)


async def test_a_write_that_arrives_after_the_fence_is_refused(shared: Shared) -> None:
    """A write on an earlier connection expects an older fence."""
    journal = await shared.created()
    store = shared.stores[0]
    late = store._writer
    assert late is not None
    sent = late.fence
    await store.settle()
    assert store._writer is not late
    assert store._writer is not None
    store._writer.fence = sent
    with pytest.raises(StoreConflictError):
        await journal.append([b"late"])
    await journal.catch_up()  # for the present fence
    await journal.append([b"with the fence as it is"])
    assert await shared.events() == (b"with the fence as it is",)


@pytest.mark.parametrize(
    ("names", "number"),
    [
        ("", 0), ("  ", 0), ("one", 1), ("one, two", 1), ('"2 (x"', 1), ("*", 1),
        ("2 (a, b, c)", 2),
        ("FIRST 3 (a, b, c)", 3), ("any 1 (a, b)", 1), ("FIRST", 1), ("first 2(*)", 2),
    ],
)  # fmt: skip
def test_the_setting_says_how_many_standbys_a_commit_waits_for(names: str, number: int) -> None:
    assert awaited(names) == number


async def test_a_change_that_too_few_standbys_would_keep_is_not_made(shared: Shared) -> None:
    await shared.created()
    needed = store_url(shared.url.reveal().decode(), None, 2)
    for names, found in (("", 0), ("one", 1)):
        await shared.server.awaited(names)
        try:
            with pytest.raises(StoreUnreadableError, match=f"{found} standbys"):
                await PostgresStore.open(needed, STORE_ID)
        finally:
            await shared.server.awaited("")


async def test_a_killed_server_has_what_it_acknowledged(shared: Shared) -> None:
    journal = await shared.created()
    await journal.append([b"acknowledged"])
    with shared.server.away():
        with pytest.raises(OutcomeUnknownError):
            await journal.append([b"not sent"])
        with pytest.raises(StoreUnreadableError):
            await shared.stores[0].head()
    with pytest.raises(NotDurableError):
        await journal.settle()
    await journal.append([b"next"])
    assert await shared.events() == (b"acknowledged", b"next")


async def test_a_watcher_hears_of_others_and_now_and_then(shared: Shared) -> None:
    one, other = await shared.created(), await shared.joined()
    heard = asyncio.Event()
    other.store.watch(heard.set)
    await heard.wait()  # every second
    heard.clear()
    await one.append([b"event"])
    await heard.wait()
    await other.catch_up()
    assert other.position == one.position


@pytest.mark.parametrize(
    "change",
    [
        "CREATE RULE r AS ON INSERT TO keyhouse.record DO INSTEAD NOTHING",
        "ALTER TABLE keyhouse.record ENABLE ROW LEVEL SECURITY",
        "ALTER TABLE keyhouse.record SET UNLOGGED",
        "ALTER TABLE keyhouse.record ADD extra text",
        "ALTER TABLE keyhouse.head ALTER sequence TYPE int",
        "ALTER TABLE keyhouse.head ALTER fence SET DEFAULT 1",
        "ALTER TABLE keyhouse.head ALTER chain DROP NOT NULL",
        "ALTER TABLE keyhouse.head ADD CHECK (sequence < 5)",
        "CREATE TABLE keyhouse.child () INHERITS (keyhouse.record)",
        "CREATE VIEW keyhouse.more AS SELECT 1",
        "CREATE TRIGGER t AFTER INSERT ON keyhouse.head EXECUTE FUNCTION unique_key_recheck()",
        "DROP TABLE keyhouse.epoch",
        "DROP SCHEMA keyhouse CASCADE",
    ],
)
async def test_a_schema_that_is_not_ours_is_refused(shared: Shared, change: str) -> None:
    await shared.ask(change)
    with pytest.raises(StoreDamagedError, match="schema keyhouse"):
        await shared.store()


async def test_a_database_that_was_not_prepared_is_named(shared: Shared) -> None:
    await shared.ask("DROP SCHEMA keyhouse CASCADE")
    with pytest.raises(StoreDamagedError, match="keyhouse store init"):
        await shared.store()


@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM keyhouse.epoch",
        "UPDATE keyhouse.head SET chain = 'short'",
        "UPDATE keyhouse.head SET sequence = -1",
        "UPDATE keyhouse.epoch SET previous = 'short'",
        "UPDATE keyhouse.head SET epoch = 0, sequence = 0, chain = ''",
    ],
)
async def test_rows_that_are_not_ours_are_refused(shared: Shared, change: str) -> None:
    await shared.created()
    await shared.ask(change)
    with pytest.raises(StoreDamagedError):
        await shared.events()


async def test_no_text_about_a_database_speaks_of_a_directory(shared: Shared) -> None:
    """A full disk, an unknown outcome, a damaged row, a lost part of a log."""
    journal = await shared.created()
    await shared.ask(
        "CREATE FUNCTION keyhouse.full() RETURNS trigger LANGUAGE plpgsql AS"
        " $$BEGIN RAISE EXCEPTION 'full' USING ERRCODE = '53100'; END$$"
    )
    await shared.ask(
        "CREATE TRIGGER full_disk BEFORE INSERT ON keyhouse.record EXECUTE FUNCTION keyhouse.full()"
    )
    told = list[str]()
    # Not even superusers can connect then: the outcome stays unknown.
    await shared.server.ask(f"ALTER DATABASE {shared.name} ALLOW_CONNECTIONS false")
    with pytest.raises(OutcomeUnknownError) as unknown:
        await journal.append([b"event"])
    await shared.server.ask(f"ALTER DATABASE {shared.name} ALLOW_CONNECTIONS true")
    await shared.ask("DROP FUNCTION keyhouse.full() CASCADE")
    with pytest.raises(NotDurableError) as not_durable:
        await journal.settle()
    for caught in (unknown, not_durable):
        told.append(str(caught.value))
        assert "database" in told[-1]
    await shared.ask("UPDATE keyhouse.record SET ciphertext = 'x'")
    with pytest.raises(StoreDamagedError) as damaged:
        await shared.events()
    with pytest.raises(UnavailableError) as lost:
        await DatabaseParts(shared.database(), "ab" * 16).tile(Tile(0, 0, 1))
    told += [str(damaged.value), str(lost.value)]
    assert [text for text in told if "directory" in text] == []


async def test_an_answer_of_any_size_is_not_taken_in(shared: Shared) -> None:
    await shared.created()
    # Compressed on the disk: the test does not write 70 MB.
    await shared.ask("ALTER TABLE keyhouse.record ALTER ciphertext SET STORAGE EXTENDED")
    await shared.ask(
        "UPDATE keyhouse.record SET ciphertext = convert_to(repeat('x', 70000000), 'UTF8')"
    )
    with pytest.raises(StoreUnreadableError):
        await shared.events()


@pytest.mark.parametrize("setting", ["client_min_messages = error", "synchronous_commit = off"])
async def test_what_the_database_sets_for_its_users_does_not_count(
    shared: Shared, setting: str
) -> None:
    await shared.ask(f"ALTER DATABASE {shared.name} SET {setting}")
    store = await shared.store()
    assert store._reader is not None
    name, _, value = setting.split()
    assert await store._reader.value(f"SHOW {name}") != value


@pytest.mark.parametrize("statement", ["SELECT 1, 2", "SELECT 1 WHERE false", "VALUES (1), (2)"])
async def test_an_answer_of_another_form_drops_the_connection(
    shared: Shared, statement: str
) -> None:
    connection = await connect(shared.url)
    assert await connection.value("SELECT 1") == 1
    with pytest.raises(ConnectionDroppedError):
        await connection.value(statement)
    assert connection.closed


async def test_what_is_beside_an_epoch_is_committed_with_it(shared: Shared) -> None:
    journal, database = await shared.created(), shared.database()
    for name in (b"old", b"kept"):
        kind = {b"old": "switch", b"kept": "ask"}[name]
        await database.put_note(STORE_ID, Note(kind, name, b"raw"))
    beside = Beside(b"index", ((b"machine", b"sealed"),), (Note("switch", b"new", b"raw"),))
    await journal.begin_epoch([b"base"], beside=beside)
    assert await database.recovery_index(STORE_ID, 2) == b"index"
    assert await database.recovery_index(STORE_ID, 1) is None
    assert await database.sealed(STORE_ID, [b"machine", b"other"]) == (b"sealed",)
    assert await database.notes(STORE_ID, "switch") == beside.notes
    assert await database.notes(STORE_ID, "ask") == (Note("ask", b"kept", b"raw"),)
    assert await database.notes(OTHER_ID, "ask") == ()


async def test_a_note_takes_the_place_of_the_one_of_its_name(shared: Shared) -> None:
    database = shared.database()
    for raw in (b"first", b"second"):
        for name in (b"one", b"other"):
            await database.put_note(STORE_ID, Note("ask", name, raw))
    await shared.ask("UPDATE keyhouse.note SET at = at - interval '2 hours' WHERE name = 'one'")
    await database.put_note(STORE_ID, Note("ask", b"other", b"third"))
    assert await database.notes(STORE_ID, "ask") == (Note("ask", b"other", b"third"),)
    with pytest.raises(ValueError, match="note"):
        await database.put_note(STORE_ID, Note("ask", b"one", bytes(LARGEST_NOTE + 1)))


async def test_a_flood_of_notes_does_not_displace_those_that_are_asked_for(shared: Shared) -> None:
    database = shared.database()
    member = Note("member", b"m" * 16, b"raw")
    await database.put_note(STORE_ID, member)
    await shared.ask(
        "INSERT INTO keyhouse.note SELECT store_id, kind, decode(to_char(i, 'FM0000'), 'hex'), raw"
        " FROM keyhouse.note, generate_series(1, 300) AS i"
    )
    await shared.ask(
        "UPDATE keyhouse.note SET at = now() - interval '1 minute' WHERE raw = 'raw'"
        " AND octet_length(name) = 16"
    )
    assert member not in await database.notes(STORE_ID, "member")
    assert await database.notes(STORE_ID, "member", [member.name, b"other"]) == (member,)


async def test_a_key_is_sealed_for_the_epoch_that_there_is(shared: Shared) -> None:
    journal, database = await shared.created(), shared.database()
    await database.seal(STORE_ID, b"machine", b"first", epoch=1)
    await journal.begin_epoch([b"base"])
    await database.seal(STORE_ID, b"machine", b"late", epoch=1)
    assert await database.sealed(STORE_ID, [b"machine"]) == (b"first",)
    await database.seal(STORE_ID, b"machine", b"second", epoch=2)
    assert await database.sealed(STORE_ID, [b"machine"]) == (b"second",)


async def test_one_has_a_claim_until_it_closes_or_is_cut_off(shared: Shared) -> None:
    one, other = shared.database(), shared.database()
    assert await one.claim("founder")
    assert await one.claim("founder")
    assert not await other.claim("founder")
    assert await other.claim("desk")
    await shared.ask(
        "SELECT pg_terminate_backend(pid, 10000) FROM pg_locks"
        " WHERE locktype = 'advisory' AND pid <> pg_backend_pid()"
    )
    assert await other.claim("founder")
    await other.close()
    assert await one.claim("founder")


async def test_one_store_takes_the_place_of_another(shared: Shared) -> None:
    """The replicas of the former store stop."""
    one, database = await shared.created(), shared.database()
    assert await database.current() is None
    await database.make_current(STORE_ID, before=None)
    for before in (None, OTHER_ID):
        with pytest.raises(StoreConflictError):
            await database.make_current(b"x" * 16, before=before)
    assert await database.current() == STORE_ID
    await one.append([b"event"])
    await database.make_current(OTHER_ID, before=STORE_ID)
    assert await database.current() == OTHER_ID
    with pytest.raises(StoreConflictError):
        await one.append([b"late"])
    with pytest.raises(SupersededError, match="archived"):
        await one.catch_up()
    with pytest.raises(SupersededError, match="archived"):
        await one.store.head()


async def test_a_pooler_is_refused(shared: Shared) -> None:
    with shared.server.pooler() as folder, pytest.raises(StoreUnreadableError, match="PgBouncer"):
        await PostgresStore.open(shared.server.url(shared.name, folder), STORE_ID)


Call = Callable[[Secret], Awaitable[object]]
CALLS: dict[str, Call] = {
    "open": lambda url: PostgresStore.open(url, STORE_ID),
    "create": create_schema,
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize(
    "wrong",
    [
        f"postgresql://nobody:{PASSWORD}@/postgres?host={{}}",
        f"postgresql://keyhouse:{PASSWORD}@/missing?host={{}}",
        f"postgresql://keyhouse:{PASSWORD}@127.0.0.1:1/postgres",
        f"postgresql://keyhouse:{PASSWORD}@host:port/postgres",
        f"{PASSWORD}",
    ],
)
async def test_no_error_quotes_the_url(postgres: PostgresServer, call: Call, wrong: str) -> None:
    with pytest.raises(StoreUnreadableError) as caught:
        await call(Secret(wrong.format(postgres.folder).encode()))
    assert PASSWORD not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


async def test_a_schema_is_not_created_twice(shared: Shared) -> None:
    with pytest.raises(StoreUnreadableError, match="has this schema already"):
        await create_schema(shared.url)

"""The SQLite store on hostile files, and on full and failed disks."""

# ruff: noqa: ASYNC221, ASYNC240 - these tests wait for their own short processes

import asyncio
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from support.samples.state import DEK, STORE_ID

from keyhouse.base.errors import KeyhouseError
from keyhouse.journal import (
    Journal,
    NotDurableError,
    OutcomeUnknownError,
    Replay,
    RolledBackError,
    StoreDamagedError,
    StoreUnreadableError,
)
from keyhouse.journal.store import sqlite_file
from keyhouse.journal.store.protocol import StoreFullError, StoreLockedError, StoreNewerError
from keyhouse.journal.store.sqlite import SqliteStore

EVENTS = tuple(b"event %d" % number for number in range(8))


@pytest.fixture
async def path(tmp_path: Path) -> Path:
    """A stopped journal with a base and eight events."""
    place = tmp_path / "journal.db"
    store = await SqliteStore.open(place)
    journal = await Journal.create(store, store_id=STORE_ID, dek=DEK, base=[b"base"])
    for event in EVENTS:
        await journal.append([event])
    await store.close()
    return place


async def reopen(path: Path) -> Replay:
    store = await SqliteStore.open(path)
    try:
        return (await Journal.open(store, store_id=STORE_ID, dek=DEK))[1]
    finally:
        await store.close()


def sql(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()


@pytest.mark.parametrize(
    "statements",
    [
        ("CREATE TRIGGER swallow BEFORE INSERT ON record BEGIN SELECT RAISE(IGNORE); END",),
        ("CREATE TRIGGER after_it AFTER INSERT ON record BEGIN DELETE FROM record; END",),
        ("CREATE VIEW other AS SELECT * FROM record",),
        ("CREATE TABLE other (x)",),
        ("CREATE INDEX other ON record (nonce)",),
        ("ALTER TABLE record RENAME TO other", "CREATE VIEW record AS SELECT * FROM other"),
        ("DROP TABLE epoch",),
        ("ALTER TABLE record ADD COLUMN more INT",),
        ("CREATE VIRTUAL TABLE other USING fts5(x)",),
    ],
    ids=["trigger", "trigger-after", "view", "table", "index", "swap", "drop", "column", "virtual"],
)
async def test_a_planted_schema_is_refused(path: Path, statements: tuple[str, ...]) -> None:
    sql(path, *statements)
    with pytest.raises(StoreDamagedError, match=r"tables, triggers or views"):
        await SqliteStore.open(path)


async def test_a_newer_format_is_refused_with_both_versions(path: Path) -> None:
    sql(path, "PRAGMA user_version=7")
    with pytest.raises(StoreNewerError, match=r"journal\.db .* 7, .* 1 "):
        await SqliteStore.open(path)


@pytest.mark.parametrize(
    "statement",
    [
        "PRAGMA application_id=1",
        "PRAGMA user_version=0",
        "PRAGMA application_id=0",
    ],
)
async def test_a_database_of_another_program_is_refused(path: Path, statement: str) -> None:
    sql(path, statement)
    with pytest.raises(StoreDamagedError):
        await SqliteStore.open(path)


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM record WHERE sequence = 4",
        "DELETE FROM record WHERE sequence < 4",
        "DELETE FROM record",
        "DELETE FROM epoch",
        "UPDATE record SET sequence = 40 WHERE sequence = 4",
        "UPDATE record SET ciphertext = zeroblob(20) WHERE sequence = 4",
        "UPDATE record SET ciphertext = zeroblob(20000000) WHERE sequence = 4",
        "UPDATE record SET header = x'02' WHERE sequence = 4",
        "UPDATE epoch SET epoch = -1",
        "UPDATE epoch SET first = 9223372036854775807",
        "UPDATE epoch SET previous = x''",
        "UPDATE epoch SET store_id = x'00'",
        "INSERT INTO epoch SELECT 9, store_id, first, previous, key_check FROM epoch",
        "INSERT INTO record SELECT -4, header, nonce, ciphertext FROM record WHERE sequence = 4",
        "INSERT INTO record SELECT 77, header, nonce, ciphertext FROM record WHERE sequence = 4",
        "INSERT INTO record SELECT 1 << 62, header, nonce, ciphertext FROM record LIMIT 1",
    ],
)
async def test_changed_rows_never_give_another_state(path: Path, statement: str) -> None:
    sql(path, statement)
    try:
        replay = await reopen(path)
    except KeyhouseError as exc:
        told = str(exc)
        assert "journal" in told or "store" in told
    else:
        # A record before the base is never read.
        assert "-4" in statement
        assert replay == Replay((b"base",), EVENTS)


async def test_each_corrupt_page_is_noticed_or_harmless(path: Path) -> None:
    genuine = path.read_bytes()
    refused = 0
    for page in range(len(genuine) // 4096):
        raw = bytearray(genuine)
        raw[page * 4096 : (page + 1) * 4096] = os.urandom(4096)
        path.write_bytes(raw)
        try:
            assert await reopen(path) == Replay((b"base",), EVENTS)
        except (StoreDamagedError, StoreNewerError):
            refused += 1
    assert refused >= 3


async def test_no_change_to_a_live_wal_gives_anything_but_a_shorter_journal(
    tmp_path: Path,
) -> None:
    """The loss is a tail: a rollback. The sealed head and the clients' memory detect a rollback."""
    live = tmp_path / "live"
    live.mkdir()
    store = await SqliteStore.open(live / "journal.db")
    journal = await Journal.create(store, store_id=STORE_ID, dek=DEK, base=[b"base"])
    for event in EVENTS:
        await journal.append([event])
    crashed = tmp_path / "crashed"
    shutil.copytree(live, crashed)
    await store.close()
    wal = crashed / "journal.db-wal"
    genuine, lengths = wal.read_bytes(), set()
    database = (crashed / "journal.db").read_bytes()
    for offset in range(0, len(genuine), 331):
        raw = bytearray(genuine)
        raw[offset] ^= 1 << offset % 8
        wal.write_bytes(raw)
        (crashed / "journal.db").write_bytes(database)
        replay = await reopen(crashed / "journal.db")
        assert replay.base == (b"base",)
        assert replay.events == EVENTS[: len(replay.events)]
        lengths.add(len(replay.events))
        wal.write_bytes(genuine[:offset])
        (crashed / "journal.db").write_bytes(database)
        replay = await reopen(crashed / "journal.db")
        assert replay.events == EVENTS[: len(replay.events)]
    assert len(lengths) > 4
    wal.write_bytes(genuine[: len(genuine) // 2])
    (crashed / "journal.db").write_bytes(database)
    store = await SqliteStore.open(crashed / "journal.db")
    with pytest.raises(RolledBackError):
        await Journal.open(store, store_id=STORE_ID, dek=DEK, at_least=journal.position)
    await store.close()


async def test_a_swallowed_insert_is_noticed(path: Path) -> None:
    """If a trigger appears after the check of the schema, the counts of rows detect it."""
    store = await SqliteStore.open(path)
    journal, _ = await Journal.open(store, store_id=STORE_ID, dek=DEK)
    trigger = "CREATE TRIGGER swallow BEFORE INSERT ON record BEGIN SELECT RAISE(IGNORE); END"
    await store._worker.run(lambda: store._connected().execute(trigger).fetchall())
    with pytest.raises(StoreDamagedError, match="discarded"):
        await journal.append([b"lost"])
    with pytest.raises(StoreDamagedError):
        await journal.begin_epoch([b"lost"])
    await store.close()


async def test_the_connection_is_set_up_for_hostile_files(path: Path) -> None:
    store = await SqliteStore.open(path)

    def pragmas() -> dict[str, object]:
        connection = store._connected()
        return {name: connection.execute(f"PRAGMA {name}").fetchone()[0] for name in expected}

    expected: dict[str, object] = {
        "trusted_schema": 0,
        "cell_size_check": 1,
        "mmap_size": 0,
        "temp_store": 2,
        "secure_delete": 1,
        "locking_mode": "exclusive",
        "journal_mode": "wal",
        "synchronous": 2,
    }
    assert await store._worker.run(pragmas) == expected
    assert not (path.parent / "journal.db-shm").exists()
    await store.close()


async def test_hostile_files_get_no_other_database_and_no_endless_value(path: Path) -> None:
    store = await SqliteStore.open(path)

    def attack(statement: str) -> None:
        store._connected().execute(statement).fetchall()

    with pytest.raises(sqlite3.OperationalError, match="too many attached databases"):
        await store._worker.run(lambda: attack("ATTACH ':memory:' AS other"))
    with pytest.raises(sqlite3.DataError, match="too big"):
        await store._worker.run(lambda: attack("SELECT zeroblob(32 * 1024 * 1024 + 1)"))
    await store.close()


def test_a_setting_that_does_not_take_effect_stops_the_start(path: Path) -> None:
    """SQLite reports no failure: an immutable file gets no write-ahead log."""
    sql(path, "PRAGMA journal_mode=DELETE")
    database = f"file:{path}?immutable=1"
    with (
        closing(sqlite3.connect(database, uri=True, isolation_level=None)) as connection,
        pytest.raises(StoreDamagedError, match="journal_mode"),
    ):
        sqlite_file._prepare(connection, path, synced=True)


async def test_damage_that_no_row_shows_is_noticed_at_the_start(path: Path) -> None:
    """The header states absent free pages: every row is still readable."""
    raw = bytearray(path.read_bytes())
    raw[36:40] = (5).to_bytes(4)
    path.write_bytes(raw)
    with pytest.raises(StoreDamagedError, match="is damaged"):
        await SqliteStore.open(path)


@pytest.mark.parametrize("kind", ["symbolic link", "directory"])
async def test_what_is_no_plain_file_is_refused(path: Path, kind: str) -> None:
    path.rename(path.with_name("elsewhere"))
    if kind == "directory":
        path.mkdir()
    else:
        path.symlink_to(path.with_name("elsewhere"))
    with pytest.raises(StoreDamagedError, match="regular file"):
        await SqliteStore.open(path)


async def test_a_second_connection_is_refused(path: Path) -> None:
    store = await SqliteStore.open(path)
    code = (
        "import asyncio, sys; from pathlib import Path\n"
        "from keyhouse.journal.store.protocol import StoreLockedError\n"
        "from keyhouse.journal.store.sqlite import SqliteStore\n"
        "try: asyncio.run(SqliteStore.open(Path(sys.argv[1])))\n"
        "except StoreLockedError as exc: print(exc)\n"
    )
    other = subprocess.run([sys.executable, "-c", code, path], capture_output=True, check=True)
    assert b"in use by another process" in other.stdout
    with pytest.raises(StoreLockedError):
        await SqliteStore.open(path)
    await store.close()


# --- full and failed disks -------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m,mode=0700", "tmpfs", place],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip("a file system of its own cannot be mounted here")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


async def fill(journal: Journal, size: int) -> tuple[list[bytes], type[KeyhouseError]]:
    """Append until the disk is full; return the written payloads and the type of the error."""
    written: list[bytes] = []
    while len(written) < 10_000:
        payload = len(written).to_bytes(4, "big") * (size // 4)
        try:
            await journal.append([payload])
        except (StoreFullError, NotDurableError) as exc:
            return written, type(exc)
        written.append(payload)
    pytest.fail("the disk was never full")


async def test_a_full_disk_stops_writes_and_not_reads(small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(400 * 1024))
    path = small_disk / "journal.db"
    store = await SqliteStore.open(path)
    journal = await Journal.create(store, store_id=STORE_ID, dek=DEK, base=[b"base"])
    written, error = await fill(journal, 2000)
    assert error is StoreFullError
    assert len(written) > 20
    with pytest.raises(StoreFullError):
        await journal.begin_epoch([bytes(200_000), bytes(200_000)])
    assert await store.head() == journal.position
    assert len((await store.read(0)).records) == len(written) + 1
    ballast.unlink()
    await journal.append([b"room again"])
    await store.close()
    assert await reopen(path) == Replay((b"base",), (*written, b"room again"))


async def test_a_full_disk_stops_no_start(small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(400 * 1024))
    path = small_disk / "journal.db"
    store = await SqliteStore.open(path)
    journal = await Journal.create(store, store_id=STORE_ID, dek=DEK, base=[b"base"])
    written, _ = await fill(journal, 2000)
    ballast.unlink()
    await store.close()
    with pytest.raises(OSError, match="No space"):
        ballast.write_bytes(bytes(1100 * 1024))
    store = await SqliteStore.open(path)
    journal, replay = await Journal.open(store, store_id=STORE_ID, dek=DEK)
    assert replay.events == tuple(written)
    with pytest.raises(StoreFullError):
        await journal.append([bytes(5000)])
    ballast.unlink()
    await journal.append([b"room again"])
    await store.close()


LIMITED = """
import asyncio, resource, sys
from pathlib import Path
from keyhouse.journal import Journal
from keyhouse.journal.store.sqlite import SqliteStore
from keyhouse.base.errors import KeyhouseError
from keyhouse.base.secret import Secret

async def main():
    store = await SqliteStore.open(Path(sys.argv[1]))
    dek = Secret(bytes(range(32)))
    journal, replay = await Journal.open(store, store_id=b"0123456789abcdef", dek=dek)
    resource.setrlimit(resource.RLIMIT_FSIZE, (90_000, resource.RLIM_INFINITY))
    count = 0
    while count < 1000:
        try:
            await journal.append([count.to_bytes(4, "big") * 400])
        except KeyhouseError as exc:
            print(type(exc).__name__, count, flush=True)
            break
        count += 1
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    if journal.settled:
        await journal.append([b"after"])
    print("settled", journal.settled, flush=True)
    await store.close()

asyncio.run(main())
"""


async def test_a_write_that_fails_has_not_happened_whatever_the_system_says(path: Path) -> None:
    """Beyond RLIMIT_FSIZE, writes fail with EFBIG, which SQLite reports as an I/O error.

    Gramine's error for a full disk has the same effect.
    """
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, path], capture_output=True, check=True, text=True
    )
    error, count = done.stdout.split()[:2]
    assert error == StoreUnreadableError.__name__, done.stdout
    assert "settled True" in done.stdout
    replay = await reopen(path)
    written = tuple(number.to_bytes(4, "big") * 400 for number in range(int(count)))
    assert int(count) > 5
    assert replay.events == (*EVENTS, *written, b"after")


async def test_an_error_at_commit_drops_the_connection_and_reads_the_disk(path: Path) -> None:
    """A commit fails after the request, here because the transaction is gone."""
    armed = False

    def step(name: str) -> None:
        if armed and name == "commit":
            connection = store._connection
            assert connection is not None
            connection.execute("ROLLBACK")

    store = await SqliteStore.open(path, step=step)
    journal, _ = await Journal.open(store, store_id=STORE_ID, dek=DEK)
    armed = True
    with pytest.raises(NotDurableError):
        await journal.append([b"lost"])
    armed = False
    await journal.append([b"kept"])
    await store.close()
    assert (await reopen(path)).events == (*EVENTS, b"kept")


# --- system calls -------------------------------------------------------------------------------

TRACED = """
import asyncio, os, sys
from pathlib import Path
from keyhouse.journal import Journal
from keyhouse.journal.store.sqlite import SqliteStore
from keyhouse.base.secret import Secret

async def main():
    store = await SqliteStore.open(Path(sys.argv[1]))
    dek = Secret(bytes(range(32)))
    journal, replay = await Journal.open(store, store_id=b"0123456789abcdef", dek=dek)
    for number in range(3):
        os.write(1, b"asked\\n")
        await journal.append([b"event"] * 8)
        os.write(1, b"durable\\n")
    await store.close()

asyncio.run(main())
"""


def test_one_sync_of_the_wal_stands_between_the_write_and_its_answer(path: Path) -> None:
    if shutil.which("strace") is None and "CI" not in os.environ:
        pytest.skip("strace is not installed")
    log = path.parent / "trace"
    command = ["strace", "-f", "-y", "-o", str(log), "-e", "trace=write,pwrite64,fsync,fdatasync"]
    subprocess.run([*command, sys.executable, "-c", TRACED, path], check=True, capture_output=True)
    trace = log.read_text()
    answers = re.findall(r'"asked\\n"(.*?)"durable\\n"', trace, flags=re.DOTALL)
    assert len(answers) == 3
    for between in answers:
        written = [each.start() for each in re.finditer(r"pwrite64\(\d+<[^>]*-wal>", between)]
        synced = [each.start() for each in re.finditer(r"f(data)?sync\(\d+<[^>]*-wal>", between)]
        assert written, between
        assert synced[-1] > written[-1]
    # The first commit after a checkpoint also syncs the header of the new WAL.
    assert len(re.findall(r"f(?:data)?sync\(", answers[-1])) == 1


async def test_a_call_on_the_workers_thread_continues_when_nobody_waits(path: Path) -> None:
    store = await SqliteStore.open(path)
    journal, _ = await Journal.open(store, store_id=STORE_ID, dek=DEK)
    writing = asyncio.ensure_future(journal.append([b"cancelled"]))
    await asyncio.sleep(0)
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing
    with pytest.raises(OutcomeUnknownError):
        await journal.append([b"more"])
    journal, replay = await Journal.open(store, store_id=STORE_ID, dek=DEK)
    assert replay.events in {EVENTS, (*EVENTS, b"cancelled")}
    await journal.append([b"more"])
    await store.close()


async def test_a_hundred_thousand_records_are_read_again(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    store = await SqliteStore.open(path)
    journal = await Journal.create(store, store_id=STORE_ID, dek=DEK, base=[b"base"])
    payloads = [b"%099d" % number for number in range(100_000)]
    for first in range(0, len(payloads), 5000):
        await journal.append(payloads[first : first + 5000])
    await store.close()
    assert (await reopen(path)).events == tuple(payloads)

"""A connection to PostgreSQL that is dropped at the first sign of trouble.

Everything the server says is untrusted, and its texts are never shown: they may quote the password.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple, TypeVar

from keyhouse.base.secret import Secret
from keyhouse.journal.store.postgres_address import Address, awaited
from keyhouse.journal.store.postgres_schema import CREATE, EXPECTED, FOUND
from keyhouse.journal.store.postgres_servers import (
    LARGEST_ANSWER,
    PATIENCE,
    SILENT,
    Raw,
    Reason,
    first_usable,
    reason_of,
    sqlstate_of,
)
from keyhouse.journal.store.protocol import (
    OutcomeUnknownError,
    StoreDamagedError,
    StoreUnreadableError,
)

T = TypeVar("T")

ADVISORY = 0x6B657968  # "keyh": the first key of all advisory locks
ACQUIRES, READS = True, False  # the last parameter of a statement for ``Connection.locked``
_LOCK_NOT_AVAILABLE = "55P03"

_CLOSING = 2  # seconds

SUSPICIOUS = 1.0
"""Seconds without an answer from which on a connection is compared with a new one."""

_BACKEND = "SELECT state FROM pg_stat_activity WHERE pid = $1"
_WAITS = "idle"  # also the first word of the states in which a transaction waits for a statement

# ``client_min_messages``: a warning is all that tells of a commit that is on one machine only.
_SETTINGS = {
    "search_path": "",
    "synchronous_commit": "on",
    "client_min_messages": "warning",
    "default_transaction_isolation": "read committed",
    "default_transaction_deferrable": "off",
    "statement_timeout": "0",
    "lock_timeout": "0",
    # Until another writer may go on where the network fails while an epoch begins.
    "idle_in_transaction_session_timeout": "3s",
}
# The server notices within 20 seconds that a machine is gone, and gives its claims and locks back.
# Not read back: they are 0 on a socket of the same machine.
_ALIVE = {
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "20s",
}
_EXPECTED = {**_SETTINGS, "fsync": "on"}
# A statement without parameters takes one round trip, any other takes two on a new connection.
_SET = "SELECT " + ", ".join(
    f"set_config('{name}', '{value}', false)" for name, value in {**_SETTINGS, **_ALIVE}.items()
)
# A connection is new where the one before was lost, and then each round trip counts. So one
# statement reads all that is checked.
_INSPECT = f"""
SELECT pg_backend_pid(), pg_postmaster_start_time()::text,
  current_setting('synchronous_standby_names'),
  ARRAY(SELECT current_setting(name) FROM unnest($1::text[]) WITH ORDINALITY AS s(name, i)
    ORDER BY i),
  ARRAY(SELECT line FROM ({FOUND}) AS found)"""  # noqa: S608 - constants
_INSPECT_COLUMNS = 5


class ConnectionDroppedError(Exception):
    """The connection was dropped during a call: what was under way may still happen.

    ``sqlstate``: what the server gave as the reason; empty if it gave none. It is untrusted: it
    only chooses a text.
    """

    def __init__(self, reason: Reason | None = None, sqlstate: str = "") -> None:
        super().__init__()
        self.reason = reason
        self.sqlstate = sqlstate


class Connection:
    """Runs one statement at a time. ``fence``: what the head row's must be for a write.

    After an error, a warning, a cancelled call, or a call without an answer in time, the connection
    is closed. ``standbys``: how many a commit has to wait for, at least. ``server``: tells the
    server from others, and from itself before a restart.

    A call without an answer for ``SUSPICIOUS`` seconds has one of two causes. A server that is
    slow, or waits for a standby, answers later: the connection is kept. A host that is gone never
    answers. So a new connection is made as the first one was, with a commit, beside the call. The
    old connection is dropped if the new one leads to another server, or if the server shows that
    nothing is under way on the old one: then the request or the answer was lost.
    """

    def __init__(self, raw: Raw, standbys: int, url: Secret) -> None:
        """Use ``connect``."""
        self._url = url
        self.standbys = standbys
        self.server_pid = int(raw.get_server_pid())  # the process of the server
        self.server = ""
        self._raw = raw
        self._warned = False
        self._is_silent = False
        self.fence = -1
        raw.add_log_listener(self._take_notice)

    @property
    def closed(self) -> bool:
        """Whether no more calls are possible."""
        return bool(self._raw.is_closed())

    async def execute(self, statement: str, *values: object) -> str:
        """Return the tag of the command. Raises ``ConnectionDroppedError``."""
        return str(await self._guarded(self._raw.execute(statement, *values)))

    async def locked(self, statement: str, *values: object, columns: int) -> list[Any] | None:
        """Return the rows that ``statement`` finds behind its lock; None without the lock.

        ``statement`` runs twice in one round trip. With ``ACQUIRES`` it waits for the lock and
        returns one row, with ``READS`` it reads. The second run has a snapshot of its own, so it
        sees all that was committed while the first run waited. After None the transaction has
        ended. Raises ``ConnectionDroppedError``.
        """

        async def attempt() -> list[Any] | None:
            try:
                runs = [(*values, ACQUIRES), (*values, READS)]
                found: list[Any] = await self._raw.fetchmany(statement, runs)
            except Exception as error:
                if sqlstate_of(error) != _LOCK_NOT_AVAILABLE:
                    raise
                await self._raw.execute("ROLLBACK")
                return None
            return found

        found = await self._guarded(attempt())
        return None if found is None else self._tuples(found, columns)[1:]

    async def fetch(self, statement: str, *values: object, columns: int) -> list[tuple[Any, ...]]:
        """Return the rows, each with so many ``columns``. Raises ``ConnectionDroppedError``."""
        return self._tuples(await self._guarded(self._raw.fetch(statement, *values)), columns)

    async def value(self, statement: str, *values: object) -> Any:
        """Return the one value that is the answer. Raises ``ConnectionDroppedError``."""
        rows = await self.fetch(statement, *values, columns=1)
        if len(rows) != 1:
            self.drop()
            raise ConnectionDroppedError
        return rows[0][0]

    async def standby_names(self) -> str:
        """Return what commits wait for. Raises ``ConnectionDroppedError``."""
        return str(await self.value("SELECT current_setting('synchronous_standby_names')"))

    async def commit_something(self) -> None:
        """Commit what is nothing, and locks nothing: what was visible before has a standby then."""
        await self.execute("SELECT pg_logical_emit_message(true, 'keyhouse', '')")

    async def is_at_work(self, pid: int) -> bool:
        """Tell whether a process of the server carries out a statement.

        Raises ``ConnectionDroppedError``.
        """
        rows = await self.fetch(_BACKEND, pid, columns=1)
        return any(not str(state).startswith(_WAITS) for (state,) in rows)

    async def listen(self, channel: str, heard: Callable[[int], None]) -> None:
        """Call ``heard`` with the process that notifies. Raises ``ConnectionDroppedError``."""
        await self._guarded(self._raw.add_listener(channel, lambda _, pid, *__: heard(pid)))

    def when_lost(self, lost: Callable[[], None]) -> None:
        """Call ``lost`` soon after the connection has ended, however that came about."""
        self._raw.add_termination_listener(lambda _: lost())

    def drop(self) -> None:
        """Close at once; the server may still finish what was under way."""
        self._raw.terminate()

    async def close(self) -> None:
        """Say goodbye, and close."""
        with suppress(Exception):  # the library's own, and some of its base classes are its secret
            await self._raw.close(timeout=_CLOSING)
        self.drop()

    def _tuples(self, found: list[Any], columns: int) -> list[tuple[Any, ...]]:
        rows = [tuple(row) for row in found]
        if any(len(row) != columns for row in rows):  # of a server that did something else
            self.drop()
            raise ConnectionDroppedError
        return rows

    async def _guarded(self, call: Awaitable[T]) -> T:
        self._raw.intake.left = LARGEST_ANSWER
        comparison = _Comparison(self._compare)
        try:
            async with asyncio.timeout(PATIENCE):
                answer = await call
        except Exception as error:  # noqa: BLE001 - not all of the library's have a public base
            self.drop()
            reason = SILENT if self._is_silent else reason_of(error)
            raise ConnectionDroppedError(reason, sqlstate_of(error)) from None
        except BaseException:
            self.drop()
            raise
        finally:
            comparison.end()
        if self._warned:
            self.drop()
            raise ConnectionDroppedError
        return answer

    async def _compare(self) -> None:
        """Drop this connection if a new one shows that the answer to its call will not come."""
        if not self.server:  # it is not in use yet: the other servers are tried in any case
            return
        with suppress(StoreUnreadableError, StoreDamagedError, ConnectionDroppedError):
            new = await connect(self._url)
            try:
                if new.server != self.server or not await new.is_at_work(self.server_pid):
                    self._is_silent = True
                    self.drop()
            finally:
                new.drop()

    def _take_notice(self, _connection: object, message: Any) -> None:
        if getattr(message, "severity_en", None) not in {"NOTICE", "INFO", "LOG", "DEBUG"}:
            self._warned = True


class _Comparison:
    """Begins ``compare`` after ``SUSPICIOUS`` seconds, unless it has ended before."""

    def __init__(self, compare: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._compare = compare
        self._task: asyncio.Task[None] | None = None
        self._timer = asyncio.get_running_loop().call_later(SUSPICIOUS, self._begin)

    def end(self) -> None:
        """End it; what it has connected is closed soon."""
        self._timer.cancel()
        if self._task is not None:
            self._task.cancel()

    def _begin(self) -> None:
        self._task = asyncio.create_task(self._compare())


@contextmanager
def unreadable() -> Iterator[None]:
    """Raise ``StoreUnreadableError`` where the connection was dropped."""
    try:
        yield
    except ConnectionDroppedError as error:
        raise _no_answer(error) from None


def _no_answer(error: ConnectionDroppedError) -> StoreUnreadableError:
    if error.reason is None or error.reason is SILENT:
        return StoreUnreadableError(
            "the database did not answer", hint="look at the database server"
        )
    return StoreUnreadableError(
        f"the database did not answer: {error.reason.text}", hint=error.reason.hint
    )


@contextmanager
def outcome_unknown() -> Iterator[None]:
    """Raise ``OutcomeUnknownError`` where the connection was dropped."""
    try:
        yield
    except ConnectionDroppedError:
        raise OutcomeUnknownError(
            "a write to the database failed and may or may not be there",
            hint="look at the database server",
        ) from None


async def connect(url: Secret) -> Connection:
    """Return a connection to a primary at ``url``, whose settings and schema were checked.

    The primary has committed something on it: with a synchronous standby it has waited until that
    standby had all that is visible. A former primary whose standby was promoted cannot do that, so
    the next server of the URL is used. Raises ``StoreUnreadableError`` or ``StoreDamagedError``.
    """

    async def prepare(connection: Connection, found: _Found) -> None:
        require_standbys(connection.standbys, found.standby_names)
        _check_schema(found.schema)
        await connection.commit_something()
        connection.server = found.started

    return await _first_usable(url, prepare)


async def create_schema(url: Secret) -> None:
    """Create the schema in a database without it. Raises ``StoreUnreadableError``."""

    async def prepare(*_: object) -> None:
        pass

    connection = await _first_usable(url, prepare)
    try:
        await connection.execute(CREATE)
    except ConnectionDroppedError as error:
        text, hint = _NOT_CREATED.get(error.sqlstate, _NOT_CREATED[""])
        raise StoreUnreadableError(
            f"the schema keyhouse cannot be created: {text}", hint=hint
        ) from None
    finally:
        await connection.close()


_NOT_CREATED = {
    "42P06": ("it exists", "if it is that of another deployment, create a database for this one"),
    "42501": (
        "the user of the URL may not create schemas in this database",
        "GRANT CREATE ON DATABASE ... TO the user, or make the user the owner",
    ),
    "": ("the server did not carry that out", "look at the log of the database server"),
}


class _Found(NamedTuple):
    """The answer to ``_INSPECT``. ``schema``: the lines of ``FOUND``."""

    server_pid: object
    started: str
    standby_names: str
    settings: list[object]
    schema: list[object]


async def _first_usable(
    url: Secret, prepare: Callable[[Connection, _Found], Awaitable[None]]
) -> Connection:
    """Return a connection to the first server that passes all checks, those of ``prepare`` last."""

    async def prepared(raw: Raw, address: Address) -> Connection:
        connection = Connection(raw, address.standbys, url)
        try:
            # Behind a pooler the settings would be those of other clients as well.
            await connection.execute(f"{_SET} WHERE pg_backend_pid() = {connection.server_pid}")
            found = await _inspected(connection)
            _check_settings(connection, found)
            await prepare(connection, found)
        except ConnectionDroppedError as error:
            raise _no_answer(error) from None
        except BaseException:
            connection.drop()
            raise
        return connection

    return await first_usable(url, prepared)


async def _inspected(connection: Connection) -> _Found:
    rows = await connection.fetch(_INSPECT, list(_EXPECTED), columns=_INSPECT_COLUMNS)
    row = rows[0] if len(rows) == 1 else ()
    types = (object, str, str, list, list)
    if len(row) != len(types) or not all(map(isinstance, row, types)):
        connection.drop()
        raise ConnectionDroppedError
    return _Found(*row)


def _check_settings(connection: Connection, found: _Found) -> None:
    """Check the settings that were made, and refuse a pooler, which would not keep them."""
    if found.server_pid != connection.server_pid:
        raise StoreUnreadableError(
            "a connection pooler such as PgBouncer is between Keyhouse and the database",
            hint="give the URL of the PostgreSQL server itself",
        )
    values = dict(zip(_EXPECTED, found.settings, strict=False))
    for name, value in _EXPECTED.items():
        if values.get(name) != value:
            raise StoreUnreadableError(
                f"the database cannot be used safely: {name} is not {value}",
                hint="set it in the configuration of the server",
            )


def require_standbys(number: int, names: str) -> None:
    """Raise ``StoreUnreadableError`` unless commits wait for ``number`` standbys at least.

    ``names``: the setting synchronous_standby_names.
    """
    if awaited(names) < number:
        raise StoreUnreadableError(
            f"the database waits for {awaited(names)} standbys before it answers, not for {number}",
            hint="set synchronous_standby_names in the configuration of the server",
        )


def _check_schema(found: list[object]) -> None:
    if not found:
        raise StoreDamagedError(
            "the database has no schema keyhouse",
            hint="create it with keyhouse store init, or give the URL of the prepared database",
        )
    if sorted(map(str, found)) != EXPECTED:
        raise StoreDamagedError(
            "the database's schema keyhouse is not as Keyhouse creates it",
            hint="give the URL of a database that was prepared for Keyhouse",
        )

"""Connect to PostgreSQL, and drop the connection at the first failure.

All answers of the server are untrusted. Its texts are never shown: they may quote the password.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple, TypeVar

from keyhouse.base.secret import Secret
from keyhouse.journal.store.postgres_address import DatabaseServers, awaited
from keyhouse.journal.store.postgres_schema import EXPECTED, FOUND
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
ACQUIRES, READS = (
    True,
    False,
)  # last parameter of a statement for ``PostgresConnection.locked``
_LOCK_NOT_AVAILABLE = "55P03"

# Seconds for a clean close.
_CLOSING = 2

SUSPICIOUS = 1.0
"""Seconds without an answer after which a connection is compared with a new connection."""

_BACKEND = "SELECT state FROM pg_stat_activity WHERE pid = $1"
_WAITS = "idle"  # also the first word of states with an open transaction that awaits a statement

# ``client_min_messages``: if only one machine has a commit, the server says so by a warning only.
_SETTINGS = {
    "search_path": "",
    "synchronous_commit": "on",
    "client_min_messages": "warning",
    "default_transaction_isolation": "read committed",
    "default_transaction_deferrable": "off",
    "statement_timeout": "0",
    "lock_timeout": "0",
    # If the network fails while an epoch begins, another writer may continue after this time.
    "idle_in_transaction_session_timeout": "3s",
}
# The server notices within 20 seconds that a machine is gone, and releases its claims and locks.
# These settings are not read back: they are 0 on a socket of the same machine.
_ALIVE = {
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "20s",
}
_EXPECTED = {**_SETTINGS, "fsync": "on"}
# A statement without parameters takes one round trip. On a new connection, other statements take
# two.
_SET = "SELECT " + ", ".join(
    f"set_config('{name}', '{value}', false)" for name, value in {**_SETTINGS, **_ALIVE}.items()
)
# A new connection often replaces a lost one, and a change waits for it. So one statement reads all
# values for the checks.
_INSPECT = f"""
SELECT pg_backend_pid(), pg_postmaster_start_time()::text,
  current_setting('synchronous_standby_names'),
  ARRAY(SELECT current_setting(name) FROM unnest($1::text[]) WITH ORDINALITY AS s(name, i)
    ORDER BY i),
  ARRAY(SELECT line FROM ({FOUND}) AS found)"""  # noqa: S608 - constants
_INSPECT_COLUMNS = 5


class ConnectionDroppedError(Exception):
    """The connection was dropped during a call. The effect of the call may still happen.

    ``sqlstate`` is the reason from the server; empty if there is none. It is untrusted, and only
    selects a text.
    """

    def __init__(self, reason: Reason | None = None, sqlstate: str = "") -> None:
        super().__init__()
        self.reason = reason
        self.sqlstate = sqlstate


class PostgresConnection:
    """A connection to PostgreSQL that runs one statement at a time.

    After an error, a warning, a cancelled call, or a call without an answer in time, the connection
    is closed. ``fence`` is the value of the head row that a write requires. ``standbys`` is the
    least number of standbys that a commit waits for. ``server`` identifies the server process: it
    changes with a restart.

    A call without an answer for ``SUSPICIOUS`` seconds has one of two causes. A slow server, or a
    server that waits for a standby, answers later: the connection stays open. A lost host never
    answers. So a new connection is made beside the call, as the first connection was made, with a
    commit. The old connection is dropped in two cases: the new connection leads to a different
    server, or the server executes nothing on the old connection. In the second case the request or
    the answer was lost.
    """

    def __init__(self, raw: Raw, standbys: int, url: Secret) -> None:
        """Store the arguments. Callers use ``connect`` instead."""
        self._url = url
        self.standbys = standbys
        self.server_pid = int(raw.get_server_pid())  # the process of the server
        self.server = ""
        self._raw = raw
        self._warned = False
        self._is_silent = False
        self.fence = -1
        raw.add_log_listener(self._on_notice)

    @property
    def closed(self) -> bool:
        """True if no more calls are possible on this connection."""
        return bool(self._raw.is_closed())

    async def execute(self, statement: str, *values: object) -> str:
        """Run ``statement``; return the command's tag. Raises ``ConnectionDroppedError``."""
        return str(await self._guarded(self._raw.execute(statement, *values)))

    async def locked(self, statement: str, *values: object, columns: int) -> list[Any] | None:
        """Run ``statement`` twice in one round trip. Return the rows of the second run.

        The first run, with ``ACQUIRES``, waits for the lock and returns one row. The second run,
        with ``READS``, has its own snapshot, so it sees all records that were committed during the
        wait. Each row has ``columns`` values. If the lock is not granted, ends the transaction and
        returns None. Raises ``ConnectionDroppedError``.
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
        """Run ``statement``; return its rows, each with ``columns`` values.

        Raises ``ConnectionDroppedError``.
        """
        return self._tuples(await self._guarded(self._raw.fetch(statement, *values)), columns)

    async def value(self, statement: str, *values: object) -> Any:
        """Run ``statement``; return the only value. Raises ``ConnectionDroppedError``."""
        rows = await self.fetch(statement, *values, columns=1)
        if len(rows) != 1:
            self.drop()
            raise ConnectionDroppedError
        return rows[0][0]

    async def standby_names(self) -> str:
        """Return the setting synchronous_standby_names. Raises ``ConnectionDroppedError``."""
        return str(await self.value("SELECT current_setting('synchronous_standby_names')"))

    async def commit_something(self) -> None:
        """Commit an empty message, without a lock.

        With a synchronous standby, the standby then has everything that was visible before.
        """
        await self.execute("SELECT pg_logical_emit_message(true, 'keyhouse', '')")

    async def is_at_work(self, pid: int) -> bool:
        """Return whether process ``pid`` of the server executes a statement.

        Raises ``ConnectionDroppedError``.
        """
        rows = await self.fetch(_BACKEND, pid, columns=1)
        return any(not str(state).startswith(_WAITS) for (state,) in rows)

    async def listen(self, channel: str, notify: Callable[[int], None]) -> None:
        """Call ``notify`` for each notification on ``channel``, with the process id of its sender.

        The process is a process of the database server. Raises ``ConnectionDroppedError``.
        """
        await self._guarded(self._raw.add_listener(channel, lambda _, pid, *__: notify(pid)))

    def when_lost(self, lost: Callable[[], None]) -> None:
        """Call ``lost`` soon after the connection ends for any reason."""
        self._raw.add_termination_listener(lambda _: lost())

    def drop(self) -> None:
        """Close at once. The server may still finish the running statement."""
        self._raw.terminate()

    async def close(self) -> None:
        """End the session of the database, and close the connection."""
        # The library has no public base class for all of its errors.
        with suppress(Exception):
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
        """Drop this connection if a new connection shows that the awaited answer will not come."""
        # Before its first use, all servers are tried in any case.
        if not self.server:
            return
        with suppress(StoreUnreadableError, StoreDamagedError, ConnectionDroppedError):
            new = await connect(self._url)
            try:
                if new.server != self.server or not await new.is_at_work(self.server_pid):
                    self._is_silent = True
                    self.drop()
            finally:
                new.drop()

    def _on_notice(self, _connection: object, message: Any) -> None:
        if getattr(message, "severity_en", None) not in {"NOTICE", "INFO", "LOG", "DEBUG"}:
            self._warned = True


class _Comparison:
    """Runs ``compare`` after ``SUSPICIOUS`` seconds, unless a call of ``end`` comes first."""

    def __init__(self, compare: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._compare = compare
        self._task: asyncio.Task[None] | None = None
        self._timer = asyncio.get_running_loop().call_later(SUSPICIOUS, self._begin)

    def end(self) -> None:
        """Cancel the comparison, which then closes its connection."""
        self._timer.cancel()
        if self._task is not None:
            self._task.cancel()

    def _begin(self) -> None:
        self._task = asyncio.create_task(self._compare())


@contextmanager
def unreadable() -> Iterator[None]:
    """Turn ``ConnectionDroppedError`` in this context into ``StoreUnreadableError``."""
    try:
        yield
    except ConnectionDroppedError as error:
        raise _no_answer(error) from None


def _no_answer(error: ConnectionDroppedError) -> StoreUnreadableError:
    if error.reason is None or error.reason is SILENT:
        return StoreUnreadableError("the database did not answer", hint="check the database server")
    return StoreUnreadableError(
        f"the database did not answer: {error.reason.text}", hint=error.reason.hint
    )


@contextmanager
def outcome_unknown() -> Iterator[None]:
    """Turn ``ConnectionDroppedError`` in this context into ``OutcomeUnknownError``."""
    try:
        yield
    except ConnectionDroppedError:
        raise OutcomeUnknownError(
            "a write to the database failed and may or may not be there",
            hint="check the database server",
        ) from None


async def connect(url: Secret) -> PostgresConnection:
    """Return a connection to a primary at ``url`` with checked settings and schema.

    The primary has committed a message on the connection. With a synchronous standby, that commit
    has waited until the standby had everything visible. A former primary whose standby was promoted
    cannot commit, so the next server of the URL is used. Raises ``StoreUnreadableError`` or
    ``StoreDamagedError``.
    """

    async def prepare(connection: PostgresConnection, state: ServerState) -> None:
        require_standbys(connection.standbys, state.standby_names)
        _check_schema(state.schema)
        await connection.commit_something()
        connection.server = state.started

    return await first_prepared(url, prepare)


class ServerState(NamedTuple):
    """The state of a server, as the first query on a new connection returns it.

    ``schema`` has the lines that describe the schema in the database.
    """

    server_pid: object
    started: str
    standby_names: str
    settings: list[object]
    schema: list[object]


async def first_prepared(
    url: Secret, prepare: Callable[[PostgresConnection, ServerState], Awaitable[None]]
) -> PostgresConnection:
    """Return a connection to the first server of ``url`` that passes all checks.

    ``prepare`` makes the last checks on the connection; it raises to refuse the server.
    """

    async def prepared(raw: Raw, address: DatabaseServers) -> PostgresConnection:
        connection = PostgresConnection(raw, address.standbys, url)
        try:
            # A pooler would apply the settings to connections of other clients.
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


async def _inspected(connection: PostgresConnection) -> ServerState:
    rows = await connection.fetch(_INSPECT, list(_EXPECTED), columns=_INSPECT_COLUMNS)
    row = rows[0] if len(rows) == 1 else ()
    types = (object, str, str, list, list)
    if len(row) != len(types) or not all(map(isinstance, row, types)):
        connection.drop()
        raise ConnectionDroppedError
    return ServerState(*row)


def _check_settings(connection: PostgresConnection, state: ServerState) -> None:
    """Verify that the server has the required settings, according to ``state``.

    Refuse a pooler, because a pooler would lose these settings.
    """
    if state.server_pid != connection.server_pid:
        raise StoreUnreadableError(
            "a connection pooler such as PgBouncer is between Keyhouse and the database",
            hint="give the URL of the PostgreSQL server itself",
        )
    values = dict(zip(_EXPECTED, state.settings, strict=False))
    for name, value in _EXPECTED.items():
        if values.get(name) != value:
            raise StoreUnreadableError(
                f"the database cannot be used safely: its setting {name} is not {value}",
                hint=f"set {name} to {value} in the configuration of the server",
            )


def require_standbys(number: int, names: str) -> None:
    """Raise ``StoreUnreadableError`` unless commits wait for at least ``number`` standbys.

    ``names`` is the setting synchronous_standby_names.
    """
    if awaited(names) < number:
        raise StoreUnreadableError(
            f"the database waits for {awaited(names)} standbys before it answers; it must wait for"
            f" {number}",
            hint="name more standbys in synchronous_standby_names of the server's configuration",
        )


def _check_schema(found: list[object]) -> None:
    if not found:
        raise StoreDamagedError(
            "the database has no schema keyhouse",
            hint="create it with keyhouse store init, or give the URL of the prepared database",
        )
    if sorted(map(str, found)) != EXPECTED:
        raise StoreDamagedError(
            "the schema keyhouse in the database differs from the schema that Keyhouse creates",
            hint="give the URL of a database that was prepared for Keyhouse",
        )

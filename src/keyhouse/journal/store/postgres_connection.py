"""A connection to PostgreSQL that is dropped at the first sign of trouble.

Everything the server says is untrusted, and its texts are never shown: they may quote the password.
"""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import asyncpg

from keyhouse.base.secret import Secret
from keyhouse.journal.store.postgres_address import address_of, awaited
from keyhouse.journal.store.postgres_schema import CREATE, EXPECTED, FOUND
from keyhouse.journal.store.protocol import (
    OutcomeUnknownError,
    StoreDamagedError,
    StoreUnreadableError,
)

T = TypeVar("T")

_PATIENCE = 15  # seconds for one answer; writes may wait for a standby or for another writer's turn
_CLOSING = 2  # seconds
_LARGEST_ANSWER = 64 * 1024 * 1024  # bytes; a batch is smaller

# ``client_min_messages``: a warning is all that tells of a commit that is on one machine only.
_SETTINGS = {
    "search_path": "",
    "synchronous_commit": "on",
    "client_min_messages": "warning",
    "default_transaction_isolation": "read committed",
    "default_transaction_deferrable": "off",
    "statement_timeout": "0",
    "lock_timeout": "0",
    "idle_in_transaction_session_timeout": "10s",  # a turn in which nothing comes
}
# The server notices within 20 seconds that a machine is gone, and gives its claims and locks back.
# Not read back: they are 0 on a socket of the same machine.
_ALIVE = {
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "20s",
}
_SET = "SELECT set_config(name, value, false) FROM unnest($1::text[], $2::text[]) AS s(name, value)"
_SHOW = (
    "SELECT current_setting(name) FROM unnest($1::text[]) WITH ORDINALITY AS s(name, i) ORDER BY i"
)


class ConnectionDroppedError(Exception):
    """The connection was dropped during a call: what was under way may still happen."""


class Connection:
    """Runs one statement at a time. ``fence``: what the head row's must be for a write.

    After an error, a warning, a cancelled call, or a call without an answer in time, the connection
    is closed. ``standbys``: how many a commit has to wait for, at least. ``in_turn``: whether a
    transaction is open that has the lock of the head row.
    """

    def __init__(self, raw: "_Raw", standbys: int) -> None:
        """Use ``connect``."""
        self.standbys = standbys
        self._raw = raw
        self._warned = False
        self.fence = -1
        self.in_turn = False
        raw.add_log_listener(self._take_notice)

    @property
    def closed(self) -> bool:
        """Whether no more calls are possible."""
        return bool(self._raw.is_closed())

    @property
    def server_pid(self) -> int:
        """The process that serves this connection, as the server calls it."""
        return int(self._raw.get_server_pid())

    async def execute(self, statement: str, *values: object) -> str:
        """Return the tag of the command. Raises ``ConnectionDroppedError``."""
        return str(await self._guarded(self._raw.execute(statement, *values)))

    async def fetch(self, statement: str, *values: object, columns: int) -> list[tuple[Any, ...]]:
        """Return the rows, each with so many ``columns``. Raises ``ConnectionDroppedError``."""
        found = await self._guarded(self._raw.fetch(statement, *values))
        rows = [tuple(row) for row in found]
        if any(len(row) != columns for row in rows):  # of a server that did something else
            self.drop()
            raise ConnectionDroppedError
        return rows

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

    async def listen(self, channel: str, heard: Callable[[int], None]) -> None:
        """Call ``heard`` with the process that notifies. Raises ``ConnectionDroppedError``."""
        await self._guarded(self._raw.add_listener(channel, lambda _, pid, *__: heard(pid)))

    def drop(self) -> None:
        """Close at once; the server may still finish what was under way."""
        self._raw.terminate()

    async def close(self) -> None:
        """Say goodbye, and close."""
        with suppress(Exception):  # the library's own, and some of its base classes are its secret
            await self._raw.close(timeout=_CLOSING)
        self.drop()

    async def _guarded(self, call: Awaitable[T]) -> T:
        self._raw.intake.left = _LARGEST_ANSWER
        try:
            async with asyncio.timeout(_PATIENCE):
                answer = await call
        except Exception:  # noqa: BLE001 - not all of the library's errors have a public base
            self.drop()
            raise ConnectionDroppedError from None
        except BaseException:
            self.drop()
            raise
        if self._warned:
            self.drop()
            raise ConnectionDroppedError
        return answer

    def _take_notice(self, _connection: object, message: Any) -> None:
        if getattr(message, "severity_en", None) not in {"NOTICE", "INFO", "LOG", "DEBUG"}:
            self._warned = True


@contextmanager
def unreadable() -> Iterator[None]:
    """Raise ``StoreUnreadableError`` where the connection was dropped."""
    try:
        yield
    except ConnectionDroppedError:
        raise StoreUnreadableError(
            "the database did not answer", hint="look at the database server"
        ) from None


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
    """Return a connection to the primary at ``url``, whose settings and schema were checked.

    Raises ``StoreUnreadableError`` or ``StoreDamagedError``.
    """
    connection = await _reached(url)
    try:
        await _check_settings(connection)
        require_standbys(connection.standbys, await connection.standby_names())
        await _check_schema(connection)
    except ConnectionDroppedError:
        raise _unreachable() from None
    except BaseException:
        connection.drop()
        raise
    return connection


async def create_schema(url: Secret) -> None:
    """Create the schema in a database without it. Raises ``StoreUnreadableError``."""
    connection = await _reached(url)
    try:
        await _check_settings(connection)
        await connection.execute(CREATE)
    except ConnectionDroppedError:
        raise StoreUnreadableError(
            "the schema keyhouse cannot be created",
            hint="it may exist, or the user of the URL may not create schemas in this database",
        ) from None
    finally:
        await connection.close()


async def _reached(url: Secret) -> Connection:
    try:
        address = address_of(url)
        raw = await asyncpg.connect(
            address.url.reveal().decode(),
            host=address.hosts,
            port=address.ports,
            ssl=address.tls or False,
            timeout=_PATIENCE,
            target_session_attrs="read-write",
            connection_class=_Raw,
        )
    except ssl.SSLCertVerificationError:
        raise StoreUnreadableError(
            "the database's server proves nothing: its certificate is not for this name, or not of"
            " an authority that the URL trusts",
            hint="look at the certificate of the server, and at sslrootcert in the URL",
        ) from None
    except Exception:  # noqa: BLE001 - as above; and their texts may quote the URL
        raise _unreachable() from None
    return Connection(raw, address.standbys)


async def _check_settings(connection: Connection) -> None:
    """Make the settings, read them back, and refuse a pooler, which would not keep them."""
    if await connection.value("SELECT pg_backend_pid()") != connection.server_pid:
        raise StoreUnreadableError(
            "a connection pooler such as PgBouncer is between Keyhouse and the database",
            hint="give the URL of the PostgreSQL server itself",
        )
    expected = {**_SETTINGS, "fsync": "on"}
    made = {**_SETTINGS, **_ALIVE}
    await connection.execute(_SET, list(made), list(made.values()))
    rows = await connection.fetch(_SHOW, list(expected), columns=1)
    found = dict(zip(expected, rows, strict=False))
    for name, value in expected.items():
        if found.get(name) != (value,):
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


async def _check_schema(connection: Connection) -> None:
    found = [line for (line,) in await connection.fetch(FOUND, columns=1)]
    if sorted(map(str, found)) != EXPECTED:
        raise StoreDamagedError(
            "the database's schema keyhouse is not as Keyhouse creates it",
            hint="give the URL of a database that was prepared for Keyhouse",
        )


def _unreachable() -> StoreUnreadableError:
    return StoreUnreadableError(
        "the database cannot be reached",
        hint="look at the server, whether it has TLS, and at the URL and the password of the store",
    )


class _Intake(asyncio.Protocol):
    """Passes on at most ``left`` bytes of what the server sends; then it ends the connection.

    What comes before the login has succeeded does not pass here.
    """

    def __init__(self, inner: asyncio.Protocol, transport: asyncio.Transport) -> None:
        self.left = _LARGEST_ANSWER
        self._transport = transport
        self.data_received_by = inner.data_received
        self.connection_lost = inner.connection_lost  # type: ignore[method-assign]
        self.eof_received = inner.eof_received  # type: ignore[method-assign]
        self.pause_writing = inner.pause_writing  # type: ignore[method-assign]
        self.resume_writing = inner.resume_writing  # type: ignore[method-assign]
        transport.set_protocol(self)

    def data_received(self, data: bytes) -> None:
        """Pass ``data`` on if it is not too much."""
        self.left -= len(data)
        if self.left < 0:
            self._transport.abort()
        else:
            self.data_received_by(data)


class _Raw(asyncpg.Connection):  # type: ignore[misc] # the library has no types
    """The library's connection, which takes in no more than ``intake`` passes on."""

    __slots__ = ("intake",)

    def __init__(self, protocol: Any, transport: asyncio.Transport, *rest: Any) -> None:
        super().__init__(protocol, transport, *rest)
        self.intake = _Intake(protocol, transport)

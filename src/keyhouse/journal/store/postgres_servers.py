"""Connect to the servers of a URL, with a separate attempt for each server.

The client library (asyncpg) tries hosts one after the other within one time limit. So a host that
drops packets uses up the time, and the library never tries the hosts after it. A host that accepts
a connection and closes it ends the search.

Here, the next attempt starts as soon as the attempt before has failed, and after ``STAGGER``
seconds in any case. The first server that passes the caller's check wins, and all other connections
are closed. A failed attempt is repeated while another attempt has not ended: a standby may be
promoted while the former primary is silent.

No error shows a text of the server or of the library: such a text may quote the password. Errors
name the SQLSTATE or the kind of ``OSError``, in texts of Keyhouse.
"""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Final, Generic, NamedTuple, TypeVar

import asyncpg

from keyhouse.base.errors import KeyhouseError
from keyhouse.base.secret import Secret
from keyhouse.journal.store.postgres_address import DatabaseServers, StoreUrlError, address_of
from keyhouse.journal.store.protocol import StoreDamagedError, StoreUnreadableError

T = TypeVar("T")

STAGGER: Final = 0.5
"""Seconds without an answer after which the next server is tried."""

PATIENCE: Final = 15
"""Seconds for a connection, and then for each answer of the server."""

LARGEST_ANSWER: Final = 64 * 1024 * 1024
"""The largest answer of a server in bytes; a batch is smaller."""


class Reason(NamedTuple):
    """The reason why a server cannot be used, and the next step."""

    text: str
    hint: str


_BY_SQLSTATE: Final = {
    "28P01": Reason(
        "it refuses the password", "check --store-password-file, and the user in the URL"
    ),
    "28000": Reason(
        "it refuses the user of the URL, or connections from this machine",
        "check the user in the URL, and pg_hba.conf of the server",
    ),
    "3D000": Reason("it has no database of that name", "check the name at the end of the URL"),
    "53100": Reason("its disk is full", "free space on the disk of the database server"),
    "57P03": Reason("it is starting, stopping or recovering", "wait until it takes connections"),
    "53300": Reason(
        "it has no connection left",
        "raise max_connections of the server: a coordinator has several connections",
    ),
}
SILENT: Final = Reason("it does not answer", "check the server, and the network to the server")
_BY_ERROR: Final[tuple[tuple[type[BaseException], Reason], ...]] = (
    (socket.gaierror, Reason("its name is unknown", "check the host in the URL, and DNS")),
    (
        ssl.SSLCertVerificationError,
        Reason(
            "its certificate is not for this name, or comes from an authority that the URL does not"
            " trust",
            "check the certificate of the server, and sslrootcert in the URL",
        ),
    ),
    (ssl.SSLError, Reason("the TLS handshake with it fails", "read the log of the server")),
    (TimeoutError, SILENT),
    (
        ConnectionRefusedError,
        Reason("it refuses connections", "check that PostgreSQL listens at that host and port"),
    ),
    (
        FileNotFoundError,
        Reason("no server listens at that socket", "check the directory in the URL"),
    ),
    (
        ConnectionResetError,
        Reason("it ends each connection", "check the server, and a proxy before the server"),
    ),
    (
        asyncpg.PostgresConnectionError,
        Reason("it ends each connection", "check the server, and a proxy before the server"),
    ),
    (
        asyncpg.TargetServerAttributeNotMatched,
        Reason(
            "it takes no writes: it is a standby",
            "promote this server, or name the primary as well",
        ),
    ),
)
_NO_TLS: Final = Reason("it has no TLS", "set ssl = on in the configuration of the server")
_NO_ROUTE: Final = Reason(
    "the network has no route to it", "check the network, and the host in the URL"
)
_OTHER: Final = Reason("it cannot be used", "read the log of the server")


# Arrays that are parameters of statements, by the fixed identifiers of their types (pg_type.dat of
# PostgreSQL). The library knows the elements only. It would ask the server for the arrays on each
# new connection: six round trips more before the first write.
_ARRAYS: Final = [
    {
        "oid": array,
        "ns": "pg_catalog",
        "name": name,
        "elemtype": element,
        "elemdelim": ",",
        "range_subtype": None,
        "attrtypoids": None,
        "basetype": None,
    }
    for array, name, element in ((1001, "_bytea", 17), (1016, "_int8", 20))
]


class Raw(asyncpg.Connection):  # type: ignore[misc] # the library has no types
    """A connection of asyncpg; ``intake`` limits the bytes that it accepts."""

    __slots__ = ("intake",)

    def __init__(self, protocol: Any, transport: asyncio.Transport, *rest: Any) -> None:
        super().__init__(protocol, transport, *rest)
        self.get_settings().register_data_types(_ARRAYS)
        self.intake = _Intake(protocol, transport)


async def first_usable(url: Secret, prepare: "Prepare[T]") -> T:
    """Return the result of ``prepare`` for the first server for which it succeeds.

    ``prepare`` closes the connection when it raises. Raises ``StoreDamagedError`` if a server takes
    writes but does not have the schema, or ``StoreUnreadableError`` with the reason for each
    server.
    """
    try:
        address = address_of(url)
    except StoreUrlError as error:
        raise StoreUnreadableError(error.message, hint=error.hint) from None
    except Exception:  # noqa: BLE001 - whatever is wrong with it, the URL has the password
        raise _unreachable([_OTHER]) from None
    race = _Race(address, prepare)
    attempts = [asyncio.create_task(race.attempt(number)) for number in range(len(address.hosts))]
    kept = None
    try:
        # An attempt raises only after all servers have failed.
        done, _ = await asyncio.wait(attempts, return_when=asyncio.FIRST_COMPLETED)
        kept = min(done, key=lambda attempt: attempt.exception() is not None)
        return kept.result()
    finally:
        await _close(attempts, kept)


Prepare = Callable[[Raw, DatabaseServers], Awaitable[T]]
"""Checks a new connection. The returned object has a method ``drop``."""


class _Race(Generic[T]):
    """The attempts to connect to the servers of ``address``."""

    def __init__(self, address: DatabaseServers, prepare: Prepare[T]) -> None:
        self._address = address
        self._prepare = prepare
        self._failures: dict[int, Reason | KeyhouseError] = {}
        self._failed = [asyncio.Event() for _ in address.hosts]

    async def attempt(self, number: int) -> T:
        """Return the checked connection to the server ``number`` of the URL, counted from 0.

        Failed attempts are repeated. Raises after all servers have failed.
        """
        if number > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(number * STAGGER):
                    await self._failed[number - 1].wait()
        while True:
            try:
                raw = await self._connected(number)
                return await self._prepare(raw, self._address)
            except KeyhouseError as error:
                self._failures[number] = error
            except Exception as error:  # noqa: BLE001 - not all errors have a public base
                self._failures[number] = reason_of(error)
            self._failed[number].set()
            if len(self._failures) == len(self._failed):
                raise self._all_failed() from None
            await asyncio.sleep(STAGGER)

    def _all_failed(self) -> KeyhouseError:
        return _unreachable([self._failures[each] for each in sorted(self._failures)])

    async def _connected(self, number: int) -> Raw:
        address = self._address
        raw: Raw = await asyncpg.connect(
            address.url.reveal().decode(),
            host=address.hosts[number],
            port=address.ports[number],
            ssl=address.tls or False,
            timeout=PATIENCE,
            target_session_attrs="read-write",
            connection_class=Raw,
        )
        return raw


async def _close(attempts: Sequence["asyncio.Task[Any]"], kept: "asyncio.Task[Any] | None") -> None:
    """Cancel all attempts except ``kept``, and close their connections."""
    others = [attempt for attempt in attempts if attempt is not kept]
    for attempt in others:
        attempt.cancel()
    for connected in await asyncio.gather(*others, return_exceptions=True):
        if not isinstance(connected, BaseException):
            connected.drop()


def reason_of(error: BaseException) -> Reason:
    """Return the text for ``error``, an exception of asyncpg or of the operating system."""
    if reason := _BY_SQLSTATE.get(sqlstate_of(error)):
        return reason
    for kind, reason in _BY_ERROR:
        if isinstance(error, kind):
            return reason
    if type(error) is ConnectionError:  # the library raises this if the server declines TLS
        return _NO_TLS
    return _NO_ROUTE if isinstance(error, OSError) else _OTHER


def sqlstate_of(error: BaseException) -> str:
    """Return the SQLSTATE in ``error``; empty if it has none."""
    state = error.sqlstate if isinstance(error, asyncpg.PostgresError) else None
    return state if isinstance(state, str) else ""


def _unreachable(failures: Sequence[Reason | KeyhouseError]) -> KeyhouseError:
    """Return the error that names the failure of each server, in the order of the URL."""
    for failure in failures:
        if isinstance(failure, StoreDamagedError):
            return failure
    if len(failures) == 1:
        failure = failures[0]
        if isinstance(failure, KeyhouseError):
            return failure
        return StoreUnreadableError(f"{_CANNOT}: {failure.text}", hint=failure.hint)
    texts, hints = list[str](), dict[str, None]()
    for number, failure in enumerate(failures, 1):
        text = failure.message if isinstance(failure, KeyhouseError) else failure.text
        texts.append(f"server {number}: {text}")
        hints[failure.hint] = None
    return StoreUnreadableError(f"{_CANNOT}: {'; '.join(texts)}", hint="; ".join(hints))


_CANNOT: Final = "the database cannot be reached"


class _Intake(asyncio.Protocol):
    """Passes on at most ``left`` bytes from the server, then aborts the connection.

    Bytes before a successful login do not pass here.
    """

    def __init__(self, inner: asyncio.Protocol, transport: asyncio.Transport) -> None:
        self.left = LARGEST_ANSWER
        self._transport = transport
        self.data_received_by = inner.data_received
        self.connection_lost = inner.connection_lost  # type: ignore[method-assign]
        self.eof_received = inner.eof_received  # type: ignore[method-assign]
        self.pause_writing = inner.pause_writing  # type: ignore[method-assign]
        self.resume_writing = inner.resume_writing  # type: ignore[method-assign]
        transport.set_protocol(self)

    def data_received(self, data: bytes) -> None:
        """Pass on ``data``, unless it exceeds the limit."""
        self.left -= len(data)
        if self.left < 0:
            self._transport.abort()
        else:
            self.data_received_by(data)

"""HTTP over the ``openssl`` program: httpcore's network interface, blocking and on event loops.

The program resolves the name and opens TCP and TLS, so a stream connects when its TLS starts.
Without TLS there is no connection, so plain HTTP cannot be sent.

Tokens lock after a few wrong PINs. So after the token has rejected the PIN, the session does not
try the PIN again. Concurrent calls would use up the tries of the token. So on an event loop,
handshakes run one at a time.
"""

import asyncio
import select
import socket
import ssl
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any, Final

import httpcore
import httpx

from keyhouse.client.errors import ClientSetupError
from keyhouse.client.http.pinned_tls import PeerContext
from keyhouse.client.tokens.openssl_program import (
    ESTABLISHED,
    LONGEST_MESSAGES,
    OpensslProgram,
    TokenTls,
    failure,
    rejects_pin,
    start,
)
from keyhouse.wire.address import Address

_ERRORS: Final = (
    httpcore.NetworkError,
    httpcore.ProtocolError,
    httpcore.ProxyError,
    httpcore.TimeoutException,
    httpcore.UnsupportedProtocol,
)
"""All errors of httpcore. Each class has a class of the same name in httpx."""


class PoolTransport(httpx.BaseTransport):
    """The transport of a blocking client of httpx, for a user with a key on a token."""

    def __init__(self, pool: httpcore.ConnectionPool) -> None:
        self._connections = pool

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send ``request`` and return its response, before its body is read."""
        with _errors_of_httpx():
            answer = self._connections.handle_request(_request(request))
        return _response(answer, _Content(answer))

    def close(self) -> None:
        """Close all connections, and end their programs."""
        self._connections.close()


class AsyncPoolTransport(httpx.AsyncBaseTransport):
    """The transport of a client on an event loop, for a user with a key on a token."""

    def __init__(self, pool: httpcore.AsyncConnectionPool) -> None:
        self._connections = pool

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send ``request`` and return its response, before its body is read."""
        with _errors_of_httpx():
            answer = await self._connections.handle_async_request(_request(request))
        return _response(answer, _AsyncContent(answer))

    async def aclose(self) -> None:
        """Close all connections, and end their programs."""
        await self._connections.aclose()


class _Content(httpx.SyncByteStream):
    def __init__(self, answer: httpcore.Response) -> None:
        self._answer = answer

    def __iter__(self) -> Iterator[bytes]:
        with _errors_of_httpx():
            yield from self._answer.iter_stream()

    def close(self) -> None:
        self._answer.close()


class _AsyncContent(httpx.AsyncByteStream):
    def __init__(self, answer: httpcore.Response) -> None:
        self._answer = answer

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _errors_of_httpx():
            async for part in self._answer.aiter_stream():
                yield part

    async def aclose(self) -> None:
        await self._answer.aclose()


def _request(request: httpx.Request) -> httpcore.Request:
    url = request.url
    return httpcore.Request(
        request.method,
        httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
        headers=request.headers.raw,
        content=request.stream,
        extensions=request.extensions,
    )


def _response(answer: httpcore.Response, content: _Content | _AsyncContent) -> httpx.Response:
    return httpx.Response(
        answer.status, headers=answer.headers, stream=content, extensions=answer.extensions
    )


@contextmanager
def _errors_of_httpx() -> Iterator[None]:
    try:
        yield
    except _ERRORS as error:
        raise getattr(httpx, type(error).__name__)(str(error)) from error


# Bytes of the program's messages in one read.
_PIECE: Final = 4096
# Seconds without a call, as in httpx.
_KEPT: Final = 5.0
# Seconds. 0 would mean a non-blocking socket.
_SOONEST: Final = 0.001


class TokenTransport(PoolTransport):
    """The transport of a blocking client, for a user with a key on a token.

    ``context`` has the deadline of the present request.
    """

    def __init__(self, tls: TokenTls, context: PeerContext) -> None:
        network = _Backend(_Tries(tls), context)
        super().__init__(
            httpcore.ConnectionPool(
                ssl_context=context, network_backend=network, keepalive_expiry=_KEPT
            )
        )


class AsyncTokenTransport(AsyncPoolTransport):
    """The transport of a client on an event loop of asyncio, for a user with a key on a token."""

    def __init__(self, tls: TokenTls, context: PeerContext) -> None:
        network = _AsyncBackend(_Tries(tls))
        super().__init__(
            httpcore.AsyncConnectionPool(
                ssl_context=context, network_backend=network, keepalive_expiry=_KEPT
            )
        )


class _Tries:
    """Starts the connections of a user with a token, and remembers a rejected PIN."""

    def __init__(self, tls: TokenTls) -> None:
        self._tls = tls
        self._pin_is_wrong = False
        self.one_at_a_time: Final = asyncio.Lock()

    def start(self, where: Address) -> OpensslProgram:
        """Start the program ``openssl``, unless the token has rejected the PIN before."""
        if self._pin_is_wrong:
            raise ClientSetupError(
                "the token rejected the PIN before, so this session does not try the PIN again",
                hint="check the PIN: a token locks itself after a few wrong PINs",
            )
        return start(self._tls, where)

    def further(self, output: bytes, piece: bytes) -> bytes:
        """Return ``output``, the program's messages so far, with the next ``piece``.

        An empty ``piece`` means that the program has ended. Then, or if the messages are too long,
        raise the error for these messages.
        """
        if piece and len(output) < LONGEST_MESSAGES:
            return output + piece
        self._pin_is_wrong = rejects_pin(output)
        raise failure(output) or httpcore.ConnectError("the program has no connection")


class _Backend(httpcore.NetworkBackend):
    def __init__(self, tries: _Tries, context: PeerContext) -> None:
        self._tries = tries
        self._context = context

    def connect_tcp(self, host: str, port: int, *_: Any, **__: Any) -> httpcore.NetworkStream:
        return _Stream(self._tries, Address(host, port), self._context)


class _AsyncBackend(httpcore.AsyncNetworkBackend):
    def __init__(self, tries: _Tries) -> None:
        self._tries = tries

    async def connect_tcp(
        self, host: str, port: int, *_: Any, **__: Any
    ) -> httpcore.AsyncNetworkStream:
        return _AsyncStream(self._tries, Address(host, port))


class _Started:
    """A connection to ``where`` through a program ``openssl``, which ``start_tls`` starts."""

    def __init__(self, tries: _Tries, where: Address) -> None:
        self._tries = tries
        self._where = where
        self._program: OpensslProgram | None = None

    def _start(self) -> OpensslProgram:
        self._program = self._tries.start(self._where)
        return self._program

    def _end(self) -> None:
        if self._program is not None:
            self._program.end()

    @property
    def _plain(self) -> socket.socket:
        if self._program is None:
            raise httpcore.LocalProtocolError("no data can be sent before TLS starts")
        return self._program.plain

    def get_extra_info(self, info: str) -> Any:
        """Return whether an idle connection has received data or its end.

        This is the answer for the name "is_readable" of httpcore in ``info``. For each different
        name, return None.
        """
        return _is_readable(self._plain) if info == "is_readable" else None


class _Stream(_Started, httpcore.NetworkStream):
    def __init__(self, tries: _Tries, where: Address, context: PeerContext) -> None:
        super().__init__(tries, where)
        self._context = context

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.NetworkStream:
        del ssl_context, server_hostname
        last = time.monotonic() + self._seconds(timeout)
        try:
            with _httpcore_errors(httpcore.ConnectTimeout, httpcore.ConnectError):
                program, output = self._start(), b""
                while not _is_connected(output):
                    program.messages.settimeout(max(last - time.monotonic(), _SOONEST))
                    piece = program.messages.recv(_PIECE)
                    output = self._tries.further(output, piece)
        except BaseException:
            self._end()
            raise
        return self

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        plain = self._plain
        with _httpcore_errors(httpcore.ReadTimeout, httpcore.ReadError):
            # This also limits a peer that sends without end.
            if time.monotonic() > self._context.deadline:
                raise TimeoutError("the deadline has passed")
            plain.settimeout(self._seconds(timeout))
            return plain.recv(max_bytes)

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        plain, left = self._plain, memoryview(buffer)
        with _httpcore_errors(httpcore.WriteTimeout, httpcore.WriteError):
            while left:
                plain.settimeout(self._seconds(timeout))
                left = left[plain.send(left) :]

    def close(self) -> None:
        self._end()

    def _seconds(self, timeout: float | None) -> float:
        """Return the seconds for the next wait.

        The result is ``timeout``, but at most the time until the deadline of the request.
        """
        left = max(self._context.deadline - time.monotonic(), _SOONEST)
        return left if timeout is None else min(timeout, left)


class _AsyncStream(_Started, httpcore.AsyncNetworkStream):
    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 as overridden
    ) -> httpcore.AsyncNetworkStream:
        del ssl_context, server_hostname
        loop = asyncio.get_running_loop()
        try:
            with _httpcore_errors(httpcore.ConnectTimeout, httpcore.ConnectError):
                async with asyncio.timeout(timeout), self._tries.one_at_a_time:
                    program, output = self._start(), b""
                    program.messages.setblocking(False)  # noqa: FBT003 it has no other name
                    program.plain.setblocking(False)  # noqa: FBT003
                    while not _is_connected(output):
                        piece = await loop.sock_recv(program.messages, _PIECE)
                        output = self._tries.further(output, piece)
        except BaseException:
            self._end()
            raise
        return self

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109
        loop = asyncio.get_running_loop()
        with _httpcore_errors(httpcore.ReadTimeout, httpcore.ReadError):
            async with asyncio.timeout(timeout):
                # sock_recv does not yield if data is already there.
                await asyncio.sleep(0)
                return await loop.sock_recv(self._plain, max_bytes)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109
        loop = asyncio.get_running_loop()
        with _httpcore_errors(httpcore.WriteTimeout, httpcore.WriteError):
            async with asyncio.timeout(timeout):
                await loop.sock_sendall(self._plain, buffer)

    async def aclose(self) -> None:
        self._end()


def _is_connected(output: bytes) -> bool:
    return ESTABLISHED in output


def _is_readable(plain: socket.socket) -> bool:
    if plain.fileno() < 0:
        # The end is readable, too.
        return True
    waiting = select.poll()
    waiting.register(plain, select.POLLIN)
    return bool(waiting.poll(0))


@contextmanager
def _httpcore_errors(late: type[Exception], failed: type[Exception]) -> Iterator[None]:
    """Raise ``late`` for a timeout of a socket, and ``failed`` for any further socket error."""
    try:
        yield
    except TimeoutError as error:
        raise late(str(error)) from error
    except OSError as error:
        raise failed(str(error)) from error

"""Transports of httpx over a given connection pool of httpcore.

httpx's own transports make their pools themselves and accept no other network backend.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Final

import httpcore
import httpx

_ERRORS: Final = (
    httpcore.NetworkError,
    httpcore.ProtocolError,
    httpcore.ProxyError,
    httpcore.TimeoutException,
    httpcore.UnsupportedProtocol,
)
"""All that httpcore raises. Each class has one of the same name in httpx."""


class PoolTransport(httpx.BaseTransport):
    """The transport of a blocking client."""

    def __init__(self, pool: httpcore.ConnectionPool) -> None:
        self._connections = pool

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send ``request`` and return its response, whose body is still to be read."""
        with _errors_of_httpx():
            answer = self._connections.handle_request(_request(request))
        return _response(answer, _Content(answer))

    def close(self) -> None:
        """Close all connections."""
        self._connections.close()


class AsyncPoolTransport(httpx.AsyncBaseTransport):
    """The transport of a client on an event loop."""

    def __init__(self, pool: httpcore.AsyncConnectionPool) -> None:
        self._connections = pool

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send ``request`` and return its response, whose body is still to be read."""
        with _errors_of_httpx():
            answer = await self._connections.handle_async_request(_request(request))
        return _response(answer, _AsyncContent(answer))

    async def aclose(self) -> None:
        """Close all connections."""
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

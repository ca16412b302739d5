"""HTTPS to services that others run: bounded in time and size, and by nothing in the environment.

Proxies and .netrc have no effect, redirects are not followed, and what is compressed unasked is not
read: it could become long.
"""

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Self

import httpx

_UNCOMPRESSED = "identity"


class AnswerUnusableError(Exception):
    """The content of an answer is not taken. The text continues "the answer": what it is."""


class ServiceClient:
    """Asks services. Use it with ``async with``; errors are those of httpx."""

    def __init__(self, context: ssl.SSLContext, *, patience: float, connections: int) -> None:
        """``patience``: seconds for each step; ``connections``: at a time."""
        self.patience = patience
        self._client = httpx.AsyncClient(
            verify=context,
            trust_env=False,
            follow_redirects=False,
            timeout=patience,
            limits=httpx.Limits(max_connections=connections),
            headers={"Accept-Encoding": _UNCOMPRESSED},
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.aclose()

    @asynccontextmanager
    async def asked(
        self, method: str, url: str, body: bytes | None = None
    ) -> AsyncIterator[httpx.Response]:
        """Yield the answer, whose content is not read yet."""
        async with self._client.stream(
            method, url, content=body, extensions={"trace": _closer()}
        ) as response:
            yield response


def tls_context(ca_pem: bytes = b"") -> ssl.SSLContext:
    """Return what verifies a service: only ``ca_pem`` vouches for it; the system's if empty.

    Raises ``ssl.SSLError`` or ``ValueError`` if that is not a PEM certificate.
    """
    # Made by hand: the default context would obey SSLKEYLOGFILE.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if ca_pem:
        context.load_verify_locations(cadata=ca_pem.decode("ascii"))
    else:
        context.set_default_verify_paths()
    return context


async def content_of(response: httpx.Response, most: int) -> bytes:
    """Return the content, ``most`` bytes at the most. Raises ``AnswerUnusableError``."""
    if response.headers.get("content-encoding", _UNCOMPRESSED) != _UNCOMPRESSED:
        raise AnswerUnusableError("is compressed, unasked")
    content = bytearray()
    async for part in response.aiter_raw():
        content += part
        if len(content) > most:
            raise AnswerUnusableError(f"has more than {most} bytes")
    return bytes(content)


def _closer() -> Callable[[str, Mapping[str, Any]], Awaitable[None]]:
    """Return a trace function for one request, which closes what a cut-off handshake leaves.

    httpcore 1.0 closes the connection of a TLS handshake that fails, but not of one that is
    cancelled: the socket would stay open until the collector finds it, in a server for long.
    Source: httpcore's documentation, "Extensions", "trace".
    """
    connected: list[Any] = []  # httpcore's AsyncNetworkStream

    async def trace(event: str, information: Mapping[str, Any]) -> None:
        if event == "connection.connect_tcp.complete":
            connected.append(information["return_value"])
        elif event == "connection.start_tls.failed":
            await connected.pop().aclose()

    return trace

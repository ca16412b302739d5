"""An HTTPS client for services outside the deployment, with bounds on time and size.

Environment variables for proxies and ``.netrc`` have no effect. Redirects are not followed. An
answer with unrequested compression is refused, because it could expand without a limit.
"""

import ssl
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from importlib.util import find_spec
from typing import Any, Self

import httpx

_UNCOMPRESSED = "identity"

# httpcore imports sniffio for each request, and without sniffio Python searches all folders again.
# ``None`` ends such an import at once.
if find_spec("sniffio") is None:
    sys.modules["sniffio"] = None  # type: ignore[assignment]  # the documented value


class AnswerUnusableError(Exception):
    """An HTTP answer is unusable. The error's text continues a sentence: "the answer ..."."""


class ServiceClient:
    """Sends requests to services, such as a PCCS. Use with ``async with``.

    Raises httpx's errors.
    """

    def __init__(self, context: ssl.SSLContext, *, patience: float, connections: int) -> None:
        """Use the TLS ``context``, and limit each step of a request to ``patience`` seconds.

        ``connections``: the maximum number of connections at the same time.
        """
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
    async def request(
        self, method: str, url: str, body: bytes | None = None
    ) -> AsyncIterator[httpx.Response]:
        """Send a request with ``body``. Yield the answer when its head has arrived.

        The function ``content_of`` reads the content of the answer.
        """
        async with self._client.stream(
            method, url, content=body, extensions={"trace": _closer()}
        ) as response:
            yield response


def tls_context(ca_pem: bytes = b"") -> ssl.SSLContext:
    """Return a TLS context that trusts ``ca_pem``, or the CAs of the system if ``ca_pem`` is empty.

    Raises ``ssl.SSLError`` or ``ValueError`` if ``ca_pem`` is not a PEM certificate.
    """
    # ``ssl.create_default_context`` would write session keys to the file in SSLKEYLOGFILE.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if ca_pem:
        context.load_verify_locations(cadata=ca_pem.decode("ascii"))
    else:
        context.set_default_verify_paths()
    return context


async def content_of(response: httpx.Response, most: int) -> bytes:
    """Return the content of ``response``.

    Raises ``AnswerUnusableError`` for more than ``most`` bytes, and for compressed content.
    """
    if response.headers.get("content-encoding", _UNCOMPRESSED) != _UNCOMPRESSED:
        raise AnswerUnusableError("is compressed, although the request forbids compression")
    content = bytearray()
    async for part in response.aiter_raw():
        content += part
        if len(content) > most:
            raise AnswerUnusableError(f"has more than {most} bytes")
    return bytes(content)


def _closer() -> Callable[[str, Mapping[str, Any]], Awaitable[None]]:
    """Return a trace function that closes the socket after a cancelled TLS handshake.

    httpcore 1.0 closes the connection after a failed handshake, but not after a cancelled one. The
    socket would stay open until the next garbage collection, which is rare in a server.
    Source: httpcore's documentation, "Extensions", "trace".
    """
    connected: list[Any] = []  # httpcore's AsyncNetworkStream

    async def trace(event: str, information: Mapping[str, Any]) -> None:
        if event == "connection.connect_tcp.complete":
            connected.append(information["return_value"])
        elif event == "connection.start_tls.failed":
            await connected.pop().aclose()

    return trace

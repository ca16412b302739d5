"""The rules of HTTP for blocking and asyncio connections: no redirects, no proxies, limits."""

import ssl
import time
from collections.abc import Callable
from typing import Any, Final

import httpx

from keyhouse.base.connect_errors import alert_in, cause_of
from keyhouse.client.effects import HttpAnswer, HttpRequest
from keyhouse.client.errors import (
    AnswerUnreadableError,
    ClientSetupError,
    TrustError,
    UnreachableError,
)
from keyhouse.client.http.retries import Timeouts
from keyhouse.wire.address import CLIENT_API, Address

_POSTED: Final = "the change may have happened: read status and log before you repeat it"
_TRY_AGAIN: Final = "check that the Client API of the coordinator runs at this address"


_CONNECTING: Final = frozenset(
    {
        "",
        "connection.connect_tcp.started",
        "connection.connect_tcp.failed",
        "connection.connect_tcp.complete",
        "connection.start_tls.started",
        "connection.start_tls.failed",
    }
)
_CLOSED: Final = ("Server disconnected", "peer closed connection")  # texts of httpcore and h11
_BY_DATE: Final = {9: "is not valid yet", 10: "has expired"}  # X509_V_ERR_CERT_...
_NOT_CONNECTED: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)

FROM_HTTPX: Final = (httpx.HTTPError, httpx.InvalidURL)
"""All errors of httpx for failures outside this program."""


def client_options(address: Address, context: ssl.SSLContext) -> dict[str, Any]:
    """Return the arguments for a client of httpx. Environment and ``.netrc`` have no effect.

    Raises ``ClientSetupError`` for a host that is invalid in a URL.
    """
    return {
        "base_url": _base_url(address),
        "verify": context,
        "trust_env": False,
        "follow_redirects": False,
        "headers": {"Accept": "application/json", "Accept-Encoding": "identity"},
    }


def _base_url(address: Address) -> httpx.URL:
    try:
        address.host.encode("idna")  # the resolver uses the same encoding
        url = httpx.URL(f"https://{address}")
        _ = url.host  # httpx decodes the host only on access
    except (UnicodeError, httpx.InvalidURL):
        raise ClientSetupError(
            f"the host in {address} must be a DNS name or an IP address",
            hint="correct the address; write international names in their ASCII form (xn--...)",
        ) from None
    return url


class RequestProgress:
    """The progress of a request. httpcore reports each step of the connection."""

    def __init__(self) -> None:
        self._step = ""

    @property
    def in_tls(self) -> bool:
        """Whether the TCP connection exists and the TLS handshake has begun."""
        return "start_tls" in self._step or not self.is_connecting

    @property
    def is_connecting(self) -> bool:
        """Whether the connection is still being opened, so nothing can have been sent."""
        return self._step in _CONNECTING

    def see(self, step: str, _info: object) -> None:
        """Record the next ``step`` of the connection, as httpcore names it."""
        self._step = step

    async def see_async(self, step: str, _info: object) -> None:
        """Record the next ``step`` of the connection, for asyncio."""
        self._step = step


def require_open(client: httpx.Client | httpx.AsyncClient) -> None:
    """Raise ``RuntimeError`` if the session of ``client`` was closed."""
    if client.is_closed:
        raise RuntimeError("the session is closed: connect again")


def prepared(request: HttpRequest, timeouts: Timeouts, trace: Callable[..., Any]) -> dict[str, Any]:
    """Return the arguments for ``stream`` of a client of httpx; no wait outlasts the deadline.

    ``trace`` receives the steps of the connection.
    """
    left = max(request.deadline - time.monotonic(), 0.001)
    connect, read = min(timeouts.connect, left), min(timeouts.read, left)
    body = request.body.reveal() if request.body is not None else None
    headers = {"Content-Type": "application/json"} if body is not None else {}
    if request.at_least:
        headers["Keyhouse-At-Least"] = request.at_least
    return {
        "method": request.method,
        "url": request.path,
        "params": request.query,
        "content": body,
        "headers": headers,
        "timeout": httpx.Timeout(connect=connect, read=read, write=read, pool=connect),
        "extensions": {"trace": trace},
    }


class Body:
    """Collects the body of an answer, up to its maximum size and until the deadline."""

    def __init__(self, address: Address, request: HttpRequest, response: httpx.Response) -> None:
        self._address = address
        self._request = request
        self._response = response
        self._parts: list[bytes] = []
        self._left = request.maximum
        if response.headers.get("Content-Encoding", "identity") != "identity":
            raise AnswerUnreadableError(
                f"the answer of {address} is compressed, although the request forbids compression"
            )

    def add(self, part: bytes) -> None:
        """Add a part of the body. Raises ``AnswerUnreadableError``, or a timeout of httpx."""
        self._left -= len(part)
        if self._left < 0:
            raise AnswerUnreadableError(
                f"the answer of {self._address} has more than {self._request.maximum} bytes"
            )
        if time.monotonic() > self._request.deadline:
            raise httpx.ReadTimeout("the whole answer took too long")
        self._parts.append(part)

    def answer(self) -> HttpAnswer:
        """Return the complete answer, after all of its parts were added."""
        headers = self._response.headers
        if headers.get("Keyhouse-Outcome") == "unknown":
            raise UnreachableError(
                f"{self._address} does not know yet whether the change has happened",
                hint="read the state before you repeat the change",
                sent=True,
            )
        return HttpAnswer(
            self._response.status_code,
            b"".join(self._parts),
            headers.get("Keyhouse-State"),
            headers.get("Retry-After", ""),
            headers.get("Keyhouse-Log"),
        )


def client_error(
    address: Address,
    request: HttpRequest,
    error: httpx.HTTPError | httpx.InvalidURL,
    progress: RequestProgress,
) -> UnreachableError | TrustError | ClientSetupError:
    """Return the error of the SDK for an ``error`` of httpx.

    ``progress`` is the progress of the failed ``request``.
    """
    if isinstance(error, httpx.InvalidURL):
        return ClientSetupError(
            "the request line (path and query) is too long", hint="request fewer names in one call"
        )
    if (unverified := _certificate_error(error)) is not None:
        return _untrusted(address, unverified)
    if isinstance(error, _NOT_CONNECTED):
        cause = cause_of(error, CLIENT_API, in_tls=progress.in_tls)
        return UnreachableError(f"cannot connect to {address}: {cause.problem}", hint=cause.hint)
    sent = request.method != "GET"
    return UnreachableError(
        f"{address} {_unanswered(error)}",
        hint=_POSTED if sent else _TRY_AGAIN,
        sent=sent,
        connected=True,
    )


def _unanswered(error: httpx.HTTPError) -> str:
    """Return the reason why a connected peer did not answer, as the end of a sentence."""
    if isinstance(error, httpx.TimeoutException):
        return "sent no complete answer in time"
    if alert := alert_in(error):
        return f"ended the connection (TLS alert: {alert})"
    if isinstance(error, httpx.RemoteProtocolError) and not str(error).startswith(_CLOSED):
        return "does not answer in HTTP/1.1"
    return "closed the connection before the answer was complete"


def _certificate_error(error: BaseException | None) -> ssl.SSLCertVerificationError | None:
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return error
        error = error.__cause__ or error.__context__
    return None


def _untrusted(address: Address, error: ssl.SSLCertVerificationError) -> TrustError:
    """Return the error for a peer's certificate that OpenSSL refused.

    OpenSSL accepts only the pinned root.
    """
    when = _BY_DATE.get(getattr(error, "verify_code", 0))
    if when is not None:
        return TrustError(
            f"the root certificate of {address} {when}",
            hint="check the clock of this machine (keyhouse doctor)",
        )
    return TrustError(f"the certificate of {address} does not verify under the verified root")

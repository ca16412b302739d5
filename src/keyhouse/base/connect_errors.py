"""Explain failed connections to the Client API or the workload API of a coordinator.

Each explanation has a cause and a hint. No explanation repeats the message of a library, except the
name of a TLS alert: RFC 8446 has a short list of these names.
"""

import re
import socket
import ssl
from collections.abc import Iterator
from typing import Final

import msgspec

from keyhouse.base.printable import os_reason

_ALERT: Final = re.compile(r"alert ([a-z ]{3,40})\b")
_WRONG_API: Final = frozenset({"no application protocol", "certificate required"})
_NOT_TLS: Final = ("wrong version number", "packet length too long", "unexpected message")
_HTTP: Final = (b"HTTP/1.0 ", b"HTTP/1.1 ")
_RECORD_HEAD: Final = 5  # bytes of the header of a TLS record (RFC 8446, 5.1)


class Api(msgspec.Struct, frozen=True):
    """An interface of the coordinator, and its second interface, for hints about a wrong port.

    ``name`` and ``port`` (the default) are those of the intended interface. ``other`` and
    ``other_port`` are those of the interface that a user could connect to by mistake.
    """

    name: str
    port: int  # by default
    other: str
    other_port: int


class Cause(msgspec.Struct, frozen=True):
    """The cause of a failure, and a hint for the next step."""

    problem: str
    hint: str


class PlainHttpError(ssl.SSLError):
    """The peer answered the TLS handshake in plain HTTP."""


def plain_http(begin: bytes, *, head_is_read: bool = False) -> PlainHttpError | None:
    """Return an error if ``begin``, the first bytes from the peer, is plain HTTP; else None.

    ``head_is_read``: OpenSSL has already consumed the first 5 bytes of the answer, as the header of
    a TLS record. ``begin`` then starts with the sixth byte.
    """
    starts = tuple(start[_RECORD_HEAD:] for start in _HTTP) if head_is_read else _HTTP
    return PlainHttpError("the peer answers in plain HTTP") if begin.startswith(starts) else None


def cause_of(error: BaseException, api: Api, *, in_tls: bool) -> Cause:
    """Return the cause of a failed connection to ``api``, from the exception ``error``.

    The exceptions behind ``error`` count, too. ``in_tls``: the TCP connection existed, and the TLS
    handshake had begun.
    """
    found = (_cause(each, api, in_tls=in_tls) for each in _chain(error))
    failed = "the TLS handshake failed" if in_tls else "no connection"
    return next(filter(None, found), None) or Cause(failed, _check_port(api))


def alert_in(error: BaseException) -> str:
    """Return the name of the peer's TLS alert in ``error`` or an exception behind it, or ""."""
    names = (_alert(each) for each in _chain(error) if isinstance(each, ssl.SSLError))
    return next(filter(None, names), "")


def _check_port(api: Api) -> str:
    return f"check the port: the {api.name} is usually on {api.port}"


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _cause(error: BaseException, api: Api, *, in_tls: bool) -> Cause | None:
    if isinstance(error, ssl.SSLError):
        return _of_tls(error, api)
    if isinstance(error, TimeoutError):
        return _timed_out(api, in_tls=in_tls)
    if in_tls and isinstance(error, ConnectionError):
        return _closed(api)
    return _of_tcp(error, api) if isinstance(error, OSError) else None


def _of_tcp(error: OSError, api: Api) -> Cause | None:
    if isinstance(error, socket.gaierror):
        return _unresolved(error)
    if isinstance(error, ConnectionRefusedError):
        return Cause("connection refused", f"check that the coordinator runs; {_check_port(api)}")
    if not error.errno:
        return None  # asyncio summarises several attempts; ``__cause__`` has the number
    return Cause(os_reason(error), "check the address, and the network of this machine")


def _of_tls(error: ssl.SSLError, api: Api) -> Cause:
    alert, text = _alert(error), str(error).lower()
    if isinstance(error, PlainHttpError):
        return Cause(
            "the peer answers in plain HTTP, not TLS",
            f"{_check_port(api)}; a proxy in between has to pass TLS through",
        )
    if isinstance(error, ssl.SSLZeroReturnError | ssl.SSLEOFError):
        return _closed(api)
    if alert in _WRONG_API:
        return Cause(
            f"the peer is not a {api.name} (TLS alert: {alert})",
            f"{_check_port(api)}; this peer may be the {api.other}, usually on port"
            f" {api.other_port}",
        )
    if alert:
        return Cause(f"the peer refuses the TLS handshake (TLS alert: {alert})", _check_port(api))
    if any(words in text for words in _NOT_TLS):
        return Cause("the peer does not speak TLS", _check_port(api))
    return Cause("the TLS handshake failed", _check_port(api))


def _alert(error: BaseException) -> str:
    found = _ALERT.search(str(error).lower())
    return found[1].strip() if found else ""


def _timed_out(api: Api, *, in_tls: bool) -> Cause:
    if in_tls:
        return Cause("the TLS handshake timed out", _check_port(api))
    return Cause("timed out", "check the address and firewalls, and that the coordinator runs")


def _closed(api: Api) -> Cause:
    return Cause(
        "the peer closes the connection during the TLS handshake",
        f"{_check_port(api)}, and that a proxy before the coordinator reaches the coordinator",
    )


def _unresolved(error: socket.gaierror) -> Cause:
    if error.errno == socket.EAI_AGAIN:
        return Cause("the name server does not answer", "check the DNS and network of this machine")
    return Cause("the host name is not found", "check its spelling, and the DNS of this machine")

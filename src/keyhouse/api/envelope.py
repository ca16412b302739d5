"""JSend: the one shape of every answer, and what each error becomes, over HTTP and over gRPC.

``{"status": ..., "data": ..., "message": ...}`` and a newline, in this order; ``data`` is always
there, ``message`` is left out when empty. Source: wire reference of the interface, "Envelope".
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from keyhouse.api.exchange import Answer
from keyhouse.api.grpc_status import Status
from keyhouse.attestation import QuoteRefused
from keyhouse.wire.errors import (
    BadRequest,
    Broken,
    Conflicting,
    Forbidden,
    Gone,
    Invalid,
    KeyhouseError,
    NotFound,
    Refused,
    TooLarge,
    Unauthenticated,
    Unavailable,
    WrongPhase,
)

__all__ = ["ERRORS", "Wording", "enveloped", "error", "fail", "refusal", "wording"]

Headers = tuple[tuple[bytes, bytes], ...]

_encode = msgspec.json.Encoder().encode


class Wording(NamedTuple):
    """What a class of errors becomes for its caller."""

    http: int
    word: str  # of JSend in version 2; in version 1 it is always "error"
    grpc: Status


ERRORS: Final[Mapping[type[KeyhouseError], Wording]] = {
    BadRequest: Wording(400, "fail", Status.INVALID_ARGUMENT),
    TooLarge: Wording(413, "fail", Status.RESOURCE_EXHAUSTED),
    Unauthenticated: Wording(401, "fail", Status.UNAUTHENTICATED),
    Forbidden: Wording(403, "error", Status.PERMISSION_DENIED),
    NotFound: Wording(404, "error", Status.NOT_FOUND),
    Gone: Wording(410, "error", Status.UNIMPLEMENTED),
    WrongPhase: Wording(409, "error", Status.FAILED_PRECONDITION),
    Conflicting: Wording(409, "error", Status.FAILED_PRECONDITION),
    Invalid: Wording(400, "error", Status.INVALID_ARGUMENT),
    QuoteRefused: Wording(400, "error", Status.PERMISSION_DENIED),
    Refused: Wording(400, "error", Status.FAILED_PRECONDITION),
    Unavailable: Wording(503, "error", Status.UNAVAILABLE),
    Broken: Wording(500, "error", Status.INTERNAL),
    KeyhouseError: Wording(500, "error", Status.INTERNAL),
}


def wording(problem: KeyhouseError) -> Wording:
    """Return what ``problem`` becomes: the row of its nearest class."""
    return next(ERRORS[base] for base in type(problem).__mro__ if base in ERRORS)


def enveloped(data: bytes, headers: Headers = (), message: str = "") -> Answer:
    """Return 200 with ``data`` that is JSON already."""
    tail = b',"message":%b}\n' % _encode(message) if message else b"}\n"
    return Answer(200, b'{"status":"success","data":%b%b' % (data, tail), headers)


def fail(status: int, message: str, data: Mapping[str, str] | None, headers: Headers) -> Answer:
    """Return a ``fail``: the request itself is at fault. ``data`` maps fields to reasons."""
    return _worded(status, "fail", data, message, headers)


def error(status: int, message: str, headers: Headers = (), data: Any = None) -> Answer:
    """Return an ``error``: everything else that went wrong."""
    return _worded(status, "error", data, message, headers)


def refusal(problem: KeyhouseError, headers: Headers = (), *, fails: bool = True) -> Answer:
    """Return what ``problem`` becomes. Without ``fails`` (version 1) every one is an ``error``."""
    status, word, _ = wording(problem)
    word = word if fails else "error"
    data: Any = None
    if isinstance(problem, BadRequest):
        data = problem.fields
    elif isinstance(problem, Invalid):
        data = {"problems": problem.problems}
    if status == 503:  # noqa: PLR2004 the one status that asks to come again
        headers = (*headers, (b"retry-after", b"1"))
    return _worded(status, word, data, str(problem), headers)


def _worded(status: int, word: str, data: Any, message: str, headers: Headers) -> Answer:
    body = {"status": word, "data": data, "message": message}
    return Answer(status, _encode(body) + b"\n", headers)

"""JSend: the one shape of every answer, and what each error becomes.

``{"status": ..., "data": ..., "message": ...}`` and a newline, in this order; ``data`` is always
there, ``message`` is left out when empty. Source: wire reference of the interface, "Envelope".
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from keyhouse.api.exchange import Answer
from keyhouse.wire.errors import (
    BadRequest,
    Broken,
    Conflicting,
    Forbidden,
    Gone,
    Invalid,
    KeyhouseError,
    NotFound,
    NotYet,
    Refused,
    TooLarge,
    Unauthenticated,
    Unavailable,
    WrongPhase,
)

__all__ = ["ERRORS", "enveloped", "error", "fail", "refusal"]

Headers = tuple[tuple[bytes, bytes], ...]

_encode = msgspec.json.Encoder().encode

ERRORS: Final[Mapping[type[KeyhouseError], tuple[int, str]]] = {
    # class: (HTTP status, JSend word in version 2; in version 1 it is always "error")
    BadRequest: (400, "fail"),
    TooLarge: (413, "fail"),
    Unauthenticated: (401, "fail"),
    Forbidden: (403, "error"),
    NotFound: (404, "error"),
    Gone: (410, "error"),
    WrongPhase: (409, "error"),
    Conflicting: (409, "error"),
    Invalid: (400, "error"),
    NotYet: (501, "error"),
    Refused: (400, "error"),
    Unavailable: (503, "error"),
    Broken: (500, "error"),
    KeyhouseError: (500, "error"),
}


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
    status, word = next(ERRORS[base] for base in type(problem).__mro__ if base in ERRORS)
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

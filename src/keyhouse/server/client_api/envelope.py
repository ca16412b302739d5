"""JSend: the form of every answer over HTTP.

``{"status": ..., "data": ..., "message": ...}`` and a newline, in this order. ``data`` is always
present. An empty ``message`` is left out. Source: wire reference of the interface, "Envelope".
"""

from collections.abc import Mapping

import msgspec

from keyhouse.base.errors import BadRequestError, InvalidError, KeyhouseError, UnsettledError
from keyhouse.server.http.exchange import Answer
from keyhouse.server.net.error_mapping import wording
from keyhouse.wire.client_api import Problems

Headers = tuple[tuple[bytes, bytes], ...]

Details = Mapping[str, str] | Problems | None
"""Reasons by the name of the wrong field, or the findings of a check."""


class _Refused(msgspec.Struct, frozen=True):
    status: str
    data: Details
    message: str


_encode = msgspec.json.Encoder().encode


def enveloped(data: bytes, headers: Headers = (), message: str = "") -> Answer:
    """Return 200 with ``data`` that is JSON already."""
    tail = b',"message":%b}\n' % _encode(message) if message else b"}\n"
    return Answer(200, b'{"status":"success","data":%b%b' % (data, tail), headers)


def fail(status: int, message: str, data: Details, headers: Headers) -> Answer:
    """Return a ``fail``: the request itself is wrong. ``data`` maps fields to reasons."""
    return _worded(status, "fail", data, message, headers)


def error(status: int, message: str, headers: Headers = ()) -> Answer:
    """Return an ``error``: any failure that is not the fault of the request."""
    return _worded(status, "error", None, message, headers)


def refusal(problem: KeyhouseError, headers: Headers = (), *, fails: bool = True) -> Answer:
    """Return the answer for ``problem``. Without ``fails`` (version 1), it is an ``error``."""
    worded = wording(problem)
    status, word = worded.http, worded.word if fails else "error"
    data: Details = None
    if isinstance(problem, BadRequestError):
        data = problem.fields
    elif isinstance(problem, InvalidError):
        data = Problems(problem.problems)
    # A client that repeats the request automatically would repeat the change.
    if isinstance(problem, UnsettledError):
        headers = (*headers, (b"keyhouse-outcome", b"unknown"))
    elif status == 503:  # noqa: PLR2004 the one status that asks to come again
        headers = (*headers, (b"retry-after", b"1"))
    return _worded(status, word, data, str(problem), headers)


def _worded(status: int, word: str, data: Details, message: str, headers: Headers) -> Answer:
    return Answer(status, _encode(_Refused(word, data, message)) + b"\n", headers)

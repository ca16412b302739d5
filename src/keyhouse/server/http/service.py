"""The objects that all HTTP connections of a listener share: application, limits, heads.

A connection remembers its last head. Clients repeat heads, and equal bytes have an equal meaning.
"""

import re
from collections.abc import Container
from functools import cache
from typing import Final

import msgspec

from keyhouse.base.errors import BrokenError
from keyhouse.server.http.counts import RequestCounts
from keyhouse.server.http.exchange import Answer, Application, Head, PlacedHead
from keyhouse.server.http.head import RequestHead, read_head
from keyhouse.server.net.connections import Connections
from keyhouse.server.net.fair_share import Pool
from keyhouse.server.net.limits import Limits

_LONGEST: Final = 2048  # bytes
_AT_LEAST: Final = rb"\r\n(?i:keyhouse-at-least):[ \t]*([^\r]*)"
# Equal to no bytes, and no bytes begin with it.
_NO_BYTES: Final[bytes | tuple[()]] = ()


class KnownHead(msgspec.Struct, frozen=True):
    """A read head of a request, for comparison with the next head of the same connection.

    Clients often repeat a head, and equal bytes need no further read. ``raw`` has the bytes of the
    head, and ``size`` their number. If the head is too long for a comparison, ``raw`` is empty.
    ``request`` is its content for the protocol, and ``head`` its content for the application.
    """

    raw: bytes | tuple[()]
    size: int
    request: RequestHead
    head: Head


NO_REQUEST: Final = RequestHead("", "", b"", 0, keep_alive=False, expects_continue=False)

NOTHING: Final = KnownHead(_NO_BYTES, 0, NO_REQUEST, Head("", "", b"", None))
"""The head of a connection without any head yet."""


_OWN_FIELDS: Final = (
    b"content-type: application/json",
    b"x-content-type-options: nosniff",
    b"cache-control: no-store",
)
_OWN: Final = b"".join(field + b"\r\n" for field in _OWN_FIELDS)
_REPLACED: Final = frozenset({b"content-type", b"cache-control"})


class HttpService(Connections):
    """The application, the limits and the memory for bodies that all HTTP connections share.

    Bodies of known users share ``known_bodies``, and all other bodies share ``anonymous_bodies``.
    Each pool has half of the memory for bodies. ``counts`` counts each answer. ``places``: heads
    contain the client's header ``Keyhouse-At-Least``. Use on the event loop's thread only.
    """

    def __init__(
        self,
        application: Application,
        limits: Limits,
        counts: RequestCounts | None = None,
        *,
        places: bool = False,
    ) -> None:
        super().__init__(limits)
        self.application = application
        self.limits = limits
        self.counts = counts
        self.places = places
        self.anonymous_bodies = Pool(limits.body_memory // 2)
        self.known_bodies = Pool(limits.body_memory - limits.body_memory // 2)
        self._headers: tuple[tuple[bytes, bytes], ...] = ()
        self._fields = _fields(())

    def read_head(self, raw: bytes, identity: bytes | None) -> KnownHead:
        """Return the content of the complete head ``raw``. Raises ``MalformedError``.

        ``identity``: the DER of the client's certificate, or None.
        """
        request = read_head(raw, self.limits)
        head = Head(request.method, request.path, request.query, identity)
        if self.places and (named := re.findall(_AT_LEAST, raw)):
            at_least = b", ".join(value.rstrip(b" \t") for value in named)
            head = PlacedHead(head.method, head.path, head.query, head.identity, at_least, head)
        return KnownHead(raw if len(raw) <= _LONGEST else _NO_BYTES, len(raw), request, head)

    def head(self, answer: Answer, *, close: bool) -> bytes:
        """Return the status line and the fields of an answer, with the empty line before its body.

        ``close``: the answer announces the end of the connection.
        """
        # The headers of a state are a single object.
        if answer.headers is not self._headers:
            self._headers, self._fields = answer.headers, _fields(answer.headers)
        last = b"connection: close\r\n" if close else b""
        return b"%b%b%bcontent-length: %d\r\n\r\n" % (
            _status_line(answer.status),
            self._fields,
            last,
            len(answer.body),
        )


def _fields(headers: tuple[tuple[bytes, bytes], ...]) -> bytes:
    """Return the encoded fields of an answer: the fields of every answer, then ``headers``.

    A header with a line break raises ``BrokenError``.
    """
    names = dict(headers)
    own = _OWN if _REPLACED.isdisjoint(names) else _own_but(names)
    fields = b"".join([b"%b: %b\r\n" % field for field in headers])
    if not fields.count(b"\r") == fields.count(b"\n") == len(headers):
        raise BrokenError("an answer has a header with a line break")
    return own + fields


def _own_but(names: Container[bytes]) -> bytes:
    """Return the encoded fields of every answer, without the fields that have one of ``names``."""
    left = (each for each in _OWN_FIELDS if each.partition(b":")[0] not in names)
    return b"".join(field + b"\r\n" for field in left)


@cache
def _status_line(status: int) -> bytes:
    # Imported with the first answer: its table of statuses takes 2 million instructions of a start.
    from http import HTTPStatus

    return f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n".encode("ascii")

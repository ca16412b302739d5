"""What all HTTP connections of a listener share: its application, its limits, heads.

A connection knows the head that it read last: clients repeat theirs, and the same bytes say the
same.
"""

import re
from collections.abc import Container
from functools import cache
from http import HTTPStatus
from typing import Final

import msgspec

from keyhouse.base.errors import BrokenError
from keyhouse.server.http.counts import RequestCounts
from keyhouse.server.http.exchange import Answer, Application, Head, PlacedHead
from keyhouse.server.http.head import RequestHead, read_head
from keyhouse.server.net.connections import Connections
from keyhouse.server.net.fair_share import Pool
from keyhouse.server.net.limits import Limits

_LONGEST: Final = 2048
_AT_LEAST: Final = re.compile(rb"\r\n(?i:keyhouse-at-least):[ \t]*([^\r]*)")
_NO_BYTES: Final[bytes | tuple[()]] = ()  # equals no bytes, and none begin with it


class KnownHead(msgspec.Struct, frozen=True):
    """A head as it came, and what it says to the protocol and to the application.

    ``raw`` equals no bytes where they are too many to be remembered; ``size`` is their number.
    """

    raw: bytes | tuple[()]
    size: int
    request: RequestHead
    head: Head


NO_REQUEST: Final = RequestHead("", "", b"", 0, keep_alive=False, expects_continue=False)

NOTHING: Final = KnownHead(_NO_BYTES, 0, NO_REQUEST, Head("", "", b"", None))
"""Of a connection that has read no head."""


def read_known(raw: bytes, limits: Limits, identity: bytes | None, *, places: bool) -> KnownHead:
    """Return what ``raw``, a whole head, says. Raises ``MalformedError``.

    ``places``: whether the application looks at the place that a client has seen.
    """
    request = read_head(raw, limits)
    head = Head(request.method, request.path, request.query, identity)
    if places and (named := _AT_LEAST.findall(raw)):
        at_least = b", ".join(value.rstrip(b" \t") for value in named)
        head = PlacedHead(head.method, head.path, head.query, head.identity, at_least, head)
    return KnownHead(raw if len(raw) <= _LONGEST else _NO_BYTES, len(raw), request, head)


_OWN_FIELDS: Final = (
    b"content-type: application/json",
    b"x-content-type-options: nosniff",
    b"cache-control: no-store",
)
_OWN: Final = b"".join(field + b"\r\n" for field in _OWN_FIELDS)
_REPLACED: Final = frozenset({b"content-type", b"cache-control"})


class HttpService(Connections):
    """The ``application`` and what its callers use. Used on the event loop's thread only.

    Bodies in flight share ``known_bodies`` if their caller was identified, else
    ``anonymous_bodies``: each is half of the memory for them. With ``places`` the application gets
    heads with the place that their client has seen.
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
        """Return what the head ``raw`` says. Raises ``MalformedError``."""
        return read_known(raw, self.limits, identity, places=self.places)

    def head(self, answer: Answer, *, close: bool) -> bytes:
        """Return the bytes of an answer up to its body."""
        if answer.headers is not self._headers:  # those of one state are the same object
            self._headers, self._fields = answer.headers, _fields(answer.headers)
        last = b"connection: close\r\n" if close else b""
        return b"%b%b%bcontent-length: %d\r\n\r\n" % (
            _status_line(answer.status),
            self._fields,
            last,
            len(answer.body),
        )


def _fields(headers: tuple[tuple[bytes, bytes], ...]) -> bytes:
    """Return the fields of an answer with ``headers``, up to those that each answer has itself."""
    names = dict(headers)
    own = _OWN if _REPLACED.isdisjoint(names) else _own_but(names)
    fields = b"".join([b"%b: %b\r\n" % field for field in headers])
    if not fields.count(b"\r") == fields.count(b"\n") == len(headers):
        raise BrokenError("an answer has a header with a line break")
    return own + fields


def _own_but(names: Container[bytes]) -> bytes:
    """Return what every answer has, but for the fields ``names``."""
    left = (each for each in _OWN_FIELDS if each.partition(b":")[0] not in names)
    return b"".join(field + b"\r\n" for field in left)


@cache
def _status_line(status: int) -> bytes:
    return f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n".encode("ascii")

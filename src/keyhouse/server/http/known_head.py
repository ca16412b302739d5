"""The head that a connection read last: clients repeat theirs, and the same bytes say the same."""

import re
from typing import Final

import msgspec

from keyhouse.server.http.exchange import Head, PlacedHead
from keyhouse.server.http.head import RequestHead, read_head
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

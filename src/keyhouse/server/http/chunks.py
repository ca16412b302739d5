"""Decodes a chunked body by the strict grammar of RFC 9112, section 7.1."""

import re
from typing import Final

from keyhouse.server.http.head import MalformedError

_TOKEN: Final = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_QUOTED: Final = rb'"(?:[\t !#-\[\]-~\x80-\xff]|\\[\t -~\x80-\xff])*"'
_SIZE_LINE: Final = (
    rb"([0-9A-Fa-f]{1,15})"
    rb"(?:[ \t]*;[ \t]*" + _TOKEN + rb"(?:[ \t]*=[ \t]*(?:" + _TOKEN + rb"|" + _QUOTED + rb"))?)*"
)
_LONGEST_LINE: Final = 256  # bytes, chosen: a size has up to 16 digits, the rest are extensions
# Bytes of data that permit one byte of framing.
_EXCUSED_BY: Final = 4
# Bytes of framing that a body may have in addition.
_MOST_OVERHEAD: Final = 16 * 1024


class ChunkedBody:
    """Decodes a chunked body from its bytes. Extensions are ignored, and trailers are refused.

    ``size`` is the number of decoded bytes, including the announced rest of the current chunk. The
    caller compares ``size`` with its limit after each ``feed``. So a chunk over the limit is never
    stored.
    """

    def __init__(self) -> None:
        self.size = 0
        self.complete = False
        self._wire = b""
        # One buffer: a list of pieces would cost 40 times the size of a one-byte piece.
        self._data = bytearray()
        # Remaining bytes of the current chunk.
        self._left = 0
        # The CRLF after the data of a chunk is due.
        self._ends_line = False
        self._overhead = 0

    def feed(self, data: bytes, limit: int) -> None:
        """Decode ``data``, the next bytes of the connection.

        Stop at the end of the body, or when ``size`` exceeds ``limit`` (decoded bytes). Raises
        ``MalformedError``.
        """
        wire = self._wire + data if self._wire else data
        at = 0
        while not self.complete and self.size <= limit:
            after = self._step(wire, at)
            if after == at:
                break
            at = after
        self._wire = wire[at:]

    def content(self) -> bytes:
        """Return the decoded bytes of the body so far."""
        return bytes(self._data)

    def rest(self) -> bytes:
        """Return the received bytes after the end of the body."""
        return self._wire

    def _step(self, wire: bytes, at: int) -> int:
        """Read the next part of the body in ``wire``, at the index ``at``.

        Return the index after the part, or ``at`` if the part is incomplete.
        """
        if self._left:
            piece = wire[at : at + self._left]
            if piece:
                self._data += piece
                self._left -= len(piece)
                self._ends_line = not self._left
            return at + len(piece)
        if self._ends_line:
            return self._line_end(wire, at)
        return self._size_line(wire, at)

    def _line_end(self, wire: bytes, at: int) -> int:
        found = wire[at : at + 2]
        if not b"\r\n".startswith(found):
            raise _malformed("the data of a chunk is longer than its size")
        if len(found) != 2:  # noqa: PLR2004 - CR LF
            return at
        self._ends_line = False
        return at + 2

    def _size_line(self, wire: bytes, at: int) -> int:
        end = wire.find(b"\r\n", at, at + _LONGEST_LINE)
        if end < 0:
            if len(wire) - at >= _LONGEST_LINE or b"\n" in wire[at:]:
                raise _malformed("the size line of a chunk is malformed")
            return at
        match = re.compile(_SIZE_LINE).fullmatch(wire, at, end)
        if match is None:
            raise _malformed("the size line of a chunk is malformed")
        size = int(match[1], 16)
        if size == 0:
            return self._last(wire, at, end + 2)
        self._count_overhead(end + 2 - at, size)
        self.size += size
        self._left = size
        return end + 2

    def _last(self, wire: bytes, at: int, end: int) -> int:
        found = wire[end : end + 2]
        if not b"\r\n".startswith(found):
            raise _malformed("trailers after a chunked body are not accepted")
        if len(found) != 2:  # noqa: PLR2004 - CR LF
            return at
        self.complete = True
        return end + 2

    def _count_overhead(self, line: int, size: int) -> None:
        """Limit the framing: the smallest chunks cost a hundred times as much as their data.

        ``line``: the bytes of a chunk's size line. ``size``: the bytes of its data.
        """
        self._overhead = max(0, self._overhead + line + 2 - size // _EXCUSED_BY)
        if self._overhead > _MOST_OVERHEAD:
            raise _malformed("the chunks of the body have more framing than data")


def _malformed(message: str) -> MalformedError:
    return MalformedError(400, "body", message, "send Content-Length instead of chunks")

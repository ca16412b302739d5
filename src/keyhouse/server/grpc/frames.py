"""Cuts the bytes of an HTTP/2 connection into frames, so that others have their turn between them.

h2 acts on all frames that it is given at once: 250 header blocks in one TLS record took 14 ms,
measured. It also keeps a frame until all of it is there, whatever its length. So h2 gets whole
frames only, one at a time, and a turn of a connection is counted in frames. A block of headers
counts as several frames, because each field costs about as much as a frame.
"""

from typing import Final

from keyhouse.server.grpc.frame_meter import CONTINUATION, HEAD, HEADERS, PREFACE

A_TURN: Final = 16
"""Frames of one connection before other connections have their turn."""

HEADERS_COUNT: Final = 8
"""Frames of a turn as which one with headers counts, and one more for each 128 bytes of it.

A frame takes up to 15 µs, a call 100 µs, 128 bytes of headers up to 15 µs, measured. So two short
calls fill a turn, or a single call with long headers.
"""

_A_FRAME: Final = 128  # bytes of headers

_KIND: Final = 3  # where the type stands in the head of a frame


class Frames:
    """The bytes of one client that have come and that nothing was done with yet."""

    __slots__ = ("_kept", "_preface")

    def __init__(self) -> None:
        self._kept = bytearray()
        self._preface = True  # it has not come whole

    def add(self, data: bytes) -> None:
        """Keep what came."""
        self._kept += data

    def next(self) -> bytes:
        """Return the next whole frame, or the preface; empty while a part of it is missing."""
        kept = self._kept
        if self._preface:
            size = PREFACE
        elif len(kept) < HEAD:
            return b""
        else:
            size = HEAD + int.from_bytes(kept[:_KIND], "big")
        if len(kept) < size:
            return b""
        frame = bytes(kept[:size])
        del kept[:size]
        self._preface = False
        return frame


def kind(frame: bytes) -> int:
    """Return the type of ``frame``; that of the preface is none that HTTP/2 has."""
    return frame[_KIND]


def cost(frame: bytes) -> int:
    """Return as how many frames of a turn ``frame`` counts."""
    if kind(frame) in {HEADERS, CONTINUATION}:
        return HEADERS_COUNT + len(frame) // _A_FRAME
    return 1

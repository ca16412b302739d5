"""Cuts the bytes of an HTTP/2 connection into frames, so that other connections have turns.

h2 handles all frames of one call: 250 header blocks in one TLS record took 14 ms, measured. h2 also
keeps an incomplete frame of any length. So h2 receives complete frames only, one at a time, and a
turn of a connection is a number of frames. A header block counts as several frames, because each
field costs about as much as a frame.
"""

from typing import Final

from keyhouse.server.grpc.frame_meter import CONTINUATION, HEAD, HEADERS, PREFACE

A_TURN: Final = 16
"""Frames of a connection before other connections have their turn."""

HEADERS_COUNT: Final = 8
"""The cost of a frame with headers, in frames. Each 128 bytes of headers cost one more.

Measured: a frame takes up to 15 µs, a call 100 µs, 128 bytes of headers up to 15 µs. So a turn has
two short calls, or a single call with long headers.
"""

_A_FRAME: Final = 128  # bytes of headers

_KIND: Final = 3  # offset of the type in the head of a frame


class Frames:
    """The received and unhandled bytes of a client."""

    __slots__ = ("_kept", "_preface")

    def __init__(self) -> None:
        self._kept = bytearray()
        self._preface = True  # the preface is incomplete

    def add(self, data: bytes) -> None:
        """Append received bytes."""
        self._kept += data

    def next(self) -> bytes:
        """Return the next complete frame or the preface, or empty bytes if incomplete."""
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
    """Return the type of ``frame``. The preface has a type that HTTP/2 does not use."""
    return frame[_KIND]


def cost(frame: bytes) -> int:
    """Return the cost of ``frame`` in frames of a turn."""
    if kind(frame) in {HEADERS, CONTINUATION}:
        return HEADERS_COUNT + len(frame) // _A_FRAME
    return 1

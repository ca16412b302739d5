"""Counts the frames of an HTTP/2 connection before anything is done with them.

HTTP/2 has many frames that cost the server something and the client nothing: streams that are
opened and reset at once (CVE-2023-44487), headers that never end (CVE-2024-27316), pings, settings,
priorities, empty data. Each has a price here. A connection has an allowance, which answers fill up
again; one that has used it up brings nothing and is closed. So no kind of frame, known or not, can
be sent forever, and the HTTP/2 library sees few of them.

A frame begins with 9 bytes: length (3), type (1), flags (1), stream (4). Source: RFC 9113, 4.1.
"""

from typing import Final

PREFACE: Final = 24  # bytes that come before the first frame
HEAD: Final = 9
DATA, HEADERS, _SETTINGS, CONTINUATION = 0x0, 0x1, 0x4, 0x9
_ACK = _END_STREAM = 0x1
_END_HEADERS: Final = 0x4

_HEADERS_PRICE: Final = 2  # it makes a stream
_SETTINGS_PRICE: Final = 16  # each of its entries is kept
_LONGEST_SETTINGS: Final = 32 * 6  # bytes: 32 entries; a client has some seven
_TINY: Final = 512  # bytes: shorter data has a price, but for the last of a request

LONGEST: Final = 16 * 1024
"""Bytes of one frame, RFC 9113, 4.2. h2 refuses a longer frame only when all of it has come."""


class FrameMeter:
    """The frames of one client. ``block`` bounds one block of headers, ``allowance`` the rest.

    Sizes are bytes. ``allowance`` is what frames without a use may cost. A byte of a block costs up
    to 0.12 µs, in Huffman's code, and the rest of a call 0.1 ms, measured.
    """

    __slots__ = ("_allowance", "_block", "_head", "_longest_block", "_most", "_skip")

    def __init__(self, block: int, allowance: int) -> None:
        self._longest_block = block
        self._most = self._allowance = allowance
        self._skip = PREFACE  # bytes until the next frame begins
        self._head = b""  # of a frame whose beginning has come
        self._block = 0  # bytes of a block of headers that has not ended

    def allow(self, count: int) -> None:
        """Fill the allowance up by ``count``: the client was given something of use."""
        self._allowance = min(self._most, self._allowance + count)

    def charge(self, count: int) -> bool:
        """Use ``count`` of the allowance up. Return False once the client went too far."""
        self._allowance -= count
        return self._allowance >= 0

    def feed(self, data: bytes) -> bool:
        """Take the bytes that came next in. Return False once the client went too far."""
        at = self._skip
        if self._head:
            data = self._head + data
            self._head = b""
        end = len(data)
        while at + HEAD <= end:
            length = int.from_bytes(data[at : at + 3], "big")
            if not self._is_fine(length, data[at + 3], data[at + 4]):
                return False
            at += HEAD + length
        if at < end:
            self._head = data[at:]
            at = end
        self._skip = at - end
        return True

    def _is_fine(self, length: int, kind: int, flags: int) -> bool:
        if length > LONGEST:
            return False
        if kind == DATA:
            if length < _TINY and not flags & _END_STREAM:
                self._allowance -= 1
        elif kind in {HEADERS, CONTINUATION}:
            self._allowance -= _HEADERS_PRICE
            self._block += length
            if self._block > self._longest_block:
                return False
            if flags & _END_HEADERS:
                self._block = 0
        elif kind == _SETTINGS and not flags & _ACK:
            self._allowance -= _SETTINGS_PRICE
            if length > _LONGEST_SETTINGS:
                return False
        else:
            self._allowance -= 1
        return self._allowance >= 0

"""HTTP/2 of a connection: counted frames, h2 with smaller limits, headers outside HPACK's table.

Many HTTP/2 frames cost the server work and the client nothing: streams that are opened and reset at
once (CVE-2023-44487), headers without an end (CVE-2024-27316), pings, settings, priorities, empty
data. ``FrameMeter`` has a price for each kind. A connection has an allowance, and each answer
refills the allowance. A connection without an allowance is closed. So no kind of frame, known or
unknown, can be sent forever, and few useless frames reach h2.

h2 handles all frames of one call: 250 header blocks in one TLS record took 14 ms, measured. h2 also
stores an incomplete frame of any length. So h2 receives complete frames only, one at a time. After
a number of frames, other connections have their turn. A header block counts as several frames,
because each field costs about as much as a frame.

A frame begins with 9 bytes: length (3), type (1), flags (1), stream (4). Source: RFC 9113, 4.1.

HPACK's encoder compresses each field with a table of earlier fields, which client and server have
to store. A workload sends one request and receives five fields, so the table costs time and saves
nothing. Here each field is a literal without indexing. Source: RFC 7541, 6.2.2 and 6.3.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.settings import SettingCodes, Settings
from hpack import Decoder, Encoder, HeaderTuple
from hpack.exceptions import HPACKDecodingError
from hpack.hpack import encode_integer
from hyperframe.frame import GoAwayFrame

PREFACE: Final = 24  # bytes before the first frame, RFC 9113, 3.4
HEAD: Final = 9  # bytes of a frame header, RFC 9113, 4.1
DATA, HEADERS, _SETTINGS, CONTINUATION = 0x0, 0x1, 0x4, 0x9
_ACK = _END_STREAM = 0x1  # flags of frames, RFC 9113, 6.1 and 6.5
_END_HEADERS: Final = 0x4  # RFC 9113, 6.2

_HEADERS_PRICE: Final = 2  # opens a stream
_SETTINGS_PRICE: Final = 16  # h2 stores each entry
_LONGEST_SETTINGS: Final = 32 * 6  # bytes: 32 entries; clients send about seven
_TINY: Final = 512  # bytes: shorter data has a price, except at the end of a request

LONGEST: Final = 16 * 1024
"""The largest frame in bytes (RFC 9113, 4.2). h2 refuses larger frames only after the last byte."""


class FrameMeter:
    """The frames of a client, counted and limited.

    ``block``: the largest encoded header block in bytes. ``allowance``: the most useless frames
    before an answer refills the allowance. Measured: a byte of a header block costs up to 0.12 µs
    in Huffman's code, and the rest of a call costs 0.1 ms.
    """

    __slots__ = ("_allowance", "_block", "_head", "_longest_block", "_most", "_skip")

    def __init__(self, block: int, allowance: int) -> None:
        self._longest_block = block
        self._most = self._allowance = allowance
        self._skip = PREFACE  # bytes before the next frame
        self._head = b""  # incomplete head of a frame
        self._block = 0  # bytes of the unfinished header block

    def allow(self, count: int) -> None:
        """Add ``count`` frames to the allowance, after an answer."""
        self._allowance = min(self._most, self._allowance + count)

    def charge(self, count: int) -> bool:
        """Subtract ``count`` frames from the allowance. Return False if it is used up."""
        self._allowance -= count
        return self._allowance >= 0

    def feed(self, data: bytes) -> bool:
        """Count the frames in ``data``, received bytes. Return False if a limit is exceeded."""
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


A_TURN: Final = 16
"""Frames of a connection before other connections have their turn."""

HEADERS_COUNT: Final = 8
"""The cost of a frame with headers, in frames. Each 128 bytes of headers cost one more.

Measured: a frame takes up to 15 µs, a call 100 µs, 128 bytes of headers up to 15 µs. So a turn has
two short calls, or a single call with long headers.
"""

_A_FRAME: Final = 128  # bytes of headers

_KIND: Final = 3  # offset of the type in the head of a frame, RFC 9113, 4.1


class Frames:
    """The received bytes of a client that h2 has not handled yet."""

    __slots__ = ("_kept", "_preface")

    def __init__(self) -> None:
        self._kept = bytearray()
        self._preface = True  # the preface is incomplete

    def add(self, data: bytes) -> None:
        """Append ``data``, received bytes of the client."""
        self._kept += data

    def next(self) -> bytes:
        """Remove and return the next complete frame or the preface; otherwise return b""."""
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
    """Return the type of ``frame`` (RFC 9113, 4.1). For the preface: a type without a meaning."""
    return frame[_KIND]


def cost(frame: bytes) -> int:
    """Return the cost of ``frame`` in frames of a turn."""
    if kind(frame) in {HEADERS, CONTINUATION}:
        return HEADERS_COUNT + len(frame) // _A_FRAME
    return 1


_NO_TABLE: Final = b"\x20"  # table size 0, which every client allows
_LITERAL: Final = b"\x00"
_LENGTH_BITS: Final = 7  # RFC 7541, 5.2: string lengths begin with 7 bits
_SHORT: Final = 64  # bytes: longer values are texts for people and are not cached


# A table size is one byte, or several bytes of which all but the last have the highest bit.
_MANY_SIZES: Final = re.compile(rb"(?:[\x20-\x3e]|\x3f[\x80-\xff]*+[\x00-\x7f]){3}")


class HeaderDecoder(Decoder):
    """Decodes request headers, in place of h2's own decoder.

    It refuses a header block that begins with more than two changes of the table size, as RFC 7541,
    4.2 demands. A block of 4 KB with such changes took 2 ms, measured.
    """

    def decode(self, data: bytes, raw: bool = False) -> Iterable[HeaderTuple]:  # noqa: FBT001, FBT002 - as the base class has it
        """Return the headers of the encoded block ``data``. With ``raw``, return them as bytes.

        Raises ``HPACKDecodingError``.
        """
        if _MANY_SIZES.match(data):
            raise HPACKDecodingError("the header block has more than two changes of the table size")
        return super().decode(data, raw)


class HeaderEncoder(Encoder):
    """Encodes response headers without compression, in place of h2's own encoder."""

    def __init__(self) -> None:
        super().__init__()
        self._has_sent_size = False  # the table size was sent

    def encode(self, headers: Iterable[tuple[bytes, bytes]], huffman: bool = True) -> bytes:  # type: ignore[override]  # noqa: ARG002, FBT001, FBT002 - h2 gives bytes; as the base class has it
        """Return an encoded block with ``headers``, never compressed. ``huffman`` has no effect."""
        block = b"".join(
            _kept(name, value) if len(value) < _SHORT else _literal(name, value)
            for name, value in headers
        )
        if self._has_sent_size:
            return block
        self._has_sent_size = True
        return _NO_TABLE + block


def _literal(name: bytes, value: bytes) -> bytes:
    return b"".join((_LITERAL, _length(name), name, _length(value), value))


_kept = lru_cache(maxsize=128)(_literal)


def _length(text: bytes) -> bytes:
    return bytes(encode_integer(len(text), _LENGTH_BITS))


# Headers of clients stay bytes, because they may not be text. The server's own headers have
# lower-case names and percent-encoded texts.
_CONFIGURATION: Final = H2Configuration(
    client_side=False,
    header_encoding=None,
    normalize_outbound_headers=False,
    validate_outbound_headers=False,
)


class Http2(H2Connection):
    """The server's side of an HTTP/2 connection.

    ``metadata``: the largest header list in bytes (RFC 9113, 6.5.2). ``streams``: the most open
    streams.
    """

    MAX_CLOSED_STREAMS = 256  # remembered streams; the default of 65,536 needs megabytes

    def __init__(self, metadata: int, streams: int) -> None:
        super().__init__(config=_CONFIGURATION)
        self.local_settings = Settings(
            client=False,
            initial_values={
                SettingCodes.MAX_CONCURRENT_STREAMS: streams,
                SettingCodes.MAX_HEADER_LIST_SIZE: metadata,
                SettingCodes.ENABLE_PUSH: 0,
            },
        )
        self.decoder = HeaderDecoder(metadata)
        self.encoder = HeaderEncoder()

    def going_away(self, code: ErrorCodes = ErrorCodes.NO_ERROR) -> bytes:
        """Return the GOAWAY frame, which refuses new streams. ``code`` is its reason.

        After h2's own method, open streams could not be answered.
        """
        last = self.highest_inbound_stream_id
        frame = GoAwayFrame(0, last_stream_id=last, error_code=code)
        return bytes(frame.serialize())

    def release(self) -> None:
        """Release the state of this HTTP/2 connection. The object is unusable afterwards.

        h2 holds a table of its own bound methods. Only the garbage collector frees such a cycle.
        After a flood, one collection would free a thousand connections while all clients wait.
        """
        vars(self).clear()

"""HTTP/2 of a connection: h2 with smaller limits, and with headers outside HPACK's table.

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
        """Return the headers of the encoded block ``data``; ``raw``: as bytes.

        Raises ``HPACKDecodingError``.
        """
        if _MANY_SIZES.match(data):
            raise HPACKDecodingError("more than two sizes of the table")
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

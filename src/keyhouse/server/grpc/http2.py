"""The HTTP/2 of one connection: h2 with smaller limits than its own, and headers without a table.

HPACK's own encoder compresses each field against a table of those sent before on the connection,
which client and server would have to keep. A workload asks once and gets five fields, so that costs
time and spares nothing. Here each is a literal that is not indexed. Source: RFC 7541, 6.2.2, 6.3.
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

_NO_TABLE: Final = b"\x20"  # a size of 0, which is within whatever limit the client has set
_LITERAL: Final = b"\x00"
_LENGTH_BITS: Final = 7
_SHORT: Final = 64  # bytes of a value that is worth to be kept: the others are texts for people


# A size of the table is one byte, or more of which all but the last have the highest bit.
_MANY_SIZES: Final = re.compile(rb"(?:[\x20-\x3e]|\x3f[\x80-\xff]*+[\x00-\x7f]){3}")


class HeaderDecoder(Decoder):
    """Takes the place of h2's decoder for one connection.

    It refuses blocks that begin with more than two sizes of the table, which RFC 7541, 4.2 does not
    allow. A block of 4 KB of them took 2 ms, measured.
    """

    def decode(self, data: bytes, raw: bool = False) -> Iterable[HeaderTuple]:  # noqa: FBT001, FBT002 - as the base class has it
        """Return the headers of a block. Raises ``HPACKDecodingError``."""
        if _MANY_SIZES.match(data):
            raise HPACKDecodingError("more than two sizes of the table")
        return super().decode(data, raw)


class HeaderEncoder(Encoder):
    """Takes the place of h2's encoder for one connection."""

    def __init__(self) -> None:
        super().__init__()
        self._said = False  # that there is no table

    def encode(self, headers: Iterable[tuple[bytes, bytes]], huffman: bool = True) -> bytes:  # type: ignore[override]  # noqa: ARG002, FBT001, FBT002 - h2 gives bytes; as the base class has it
        """Return a block with ``headers``. Values are sent as they are, whatever ``huffman``."""
        block = b"".join(
            _kept(name, value) if len(value) < _SHORT else _literal(name, value)
            for name, value in headers
        )
        if self._said:
            return block
        self._said = True
        return _NO_TABLE + block


def _literal(name: bytes, value: bytes) -> bytes:
    return b"".join((_LITERAL, _length(name), name, _length(value), value))


_kept = lru_cache(maxsize=128)(_literal)


def _length(text: bytes) -> bytes:
    return bytes(encode_integer(len(text), _LENGTH_BITS))


# Headers of clients stay bytes, which need not be text. Those of answers are our own: names are
# lower-case, texts percent-encoded.
_CONFIGURATION: Final = H2Configuration(
    client_side=False,
    header_encoding=None,
    normalize_outbound_headers=False,
    validate_outbound_headers=False,
)


class Http2(H2Connection):
    """The side of a server. ``metadata`` bounds a header list, ``streams`` those that are open."""

    MAX_CLOSED_STREAMS = 256  # that are remembered; 65,536 would be megabytes

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
        """Return the frame that says that no new streams are taken.

        h2's own way leaves no possibility to answer the streams that are open.
        """
        last = self.highest_inbound_stream_id
        frame = GoAwayFrame(0, last_stream_id=last, error_code=code)
        return bytes(frame.serialize())

    def release(self) -> None:
        """Let go of everything; nothing can be asked of it afterwards.

        h2 holds a table of its own methods. Such a circle is left to the collector, which would
        find the memory of a thousand connections at once, cold and with everybody waiting.
        """
        vars(self).clear()

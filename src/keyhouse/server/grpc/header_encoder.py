"""Headers as HTTP/2 sends them, without the table that client and server would have to keep.

HPACK's own encoder compresses each field against a table of those sent before on the connection. A
workload asks once and gets five fields, so that costs time and spares nothing. Here each is a
literal that is not indexed. Source: RFC 7541, 6.2.2 and 6.3.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from hpack import Encoder
from hpack.hpack import encode_integer

_NO_TABLE: Final = b"\x20"  # a size of 0, which is within whatever limit the client has set
_LITERAL: Final = b"\x00"
_LENGTH_BITS: Final = 7
_SHORT: Final = 64  # bytes of a value that is worth to be kept: the others are texts for people


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

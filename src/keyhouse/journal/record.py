"""The header of a record: everything about it that is not secret.

34 bytes, numbers big-endian::

    0   format version (1)
    1   kind
    2   store id, 16 bytes
    18  epoch, u64
    26  sequence, u64
"""

import struct
from enum import IntEnum

import msgspec

from keyhouse.journal.store.protocol import StoreDamaged, StoreNewer

__all__ = ["FORMAT_VERSION", "HEADER_SIZE", "Header", "Kind"]

FORMAT_VERSION = 1
_LAYOUT = struct.Struct(">BB16sQQ")
HEADER_SIZE = _LAYOUT.size


class Kind(IntEnum):
    """What a record carries."""

    BASE = 1  # a piece of the base that an epoch begins with
    BASE_END = 2  # its last piece: a base that was cut off is never taken for a whole one
    EVENT = 3


class Header(msgspec.Struct, frozen=True):
    """A header's fields."""

    kind: Kind
    store_id: bytes
    epoch: int
    sequence: int

    def encode(self) -> bytes:
        """Return the 34 bytes."""
        return _LAYOUT.pack(FORMAT_VERSION, self.kind, self.store_id, self.epoch, self.sequence)

    @classmethod
    def decode(cls, raw: bytes) -> "Header":
        """Return the fields; raise ``StoreNewer`` or ``StoreDamaged``."""
        if raw[:1] > bytes([FORMAT_VERSION]):
            raise StoreNewer(
                f"the journal has records of format {raw[0]}, this version reads {FORMAT_VERSION}",
                hint="start the version of Keyhouse that wrote it, or a later one",
            )
        if len(raw) != HEADER_SIZE or raw[0] != FORMAT_VERSION:
            raise StoreDamaged("the journal has a record whose header cannot be read")
        _, kind, store_id, epoch, sequence = _LAYOUT.unpack(raw)
        if kind not in Kind._value2member_map_:
            raise StoreDamaged(f"record {sequence} of the journal is of an unknown kind")
        return cls(Kind(kind), store_id, epoch, sequence)

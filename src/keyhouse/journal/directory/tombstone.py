"""The file ``tombstone``: this store was erased, because its deployment keeps nothing on disk.

::

    0   magic "KEYHTOMB"
    8   format version (1)
    9   store id, 16 bytes
    25  epoch, u64 big-endian
    33  sequence, u64 big-endian
    41  chain value, 32 bytes: the end of the journal on the disk
    73  time, u64 big-endian: microseconds since 1970, from the journal
    81  SHA-256 of all earlier bytes

The file distinguishes intentionally erased data from missing data. It is not proven, and need not
be: a host that can plant a tombstone can as well empty the directory. In both cases the next start
is a new deployment with a new root. No client accepts this root as the old root.
"""

import struct
from datetime import UTC, datetime, timedelta

import msgspec

from keyhouse.journal.directory.disk import TOMBSTONE, framed, unframed
from keyhouse.journal.store.protocol import Position, StoreDamagedError

FORMAT_VERSION = 1  # the present format of the file
FILE_LIMIT = 4096  # bytes; the file has 113
_LAYOUT = struct.Struct(">8sB16sQQ32sQ")
_MAGIC = b"KEYHTOMB"
_EPOCH_BEGIN = datetime(1970, 1, 1, tzinfo=UTC)
_MOST_MICROSECONDS = 253_402_300_799_999_999  # the end of the year 9999


class Tombstone(msgspec.Struct, frozen=True):
    """The erased journal, its end, and the time (microseconds since 1970)."""

    store_id: bytes
    position: Position
    time: int

    def encode(self) -> bytes:
        """Return the bytes of the file tombstone."""
        body = _LAYOUT.pack(
            _MAGIC,
            FORMAT_VERSION,
            self.store_id,
            self.position.epoch,
            self.position.sequence,
            self.position.chain,
            self.time,
        )
        return framed(body)

    @classmethod
    def decode(cls, raw: bytes) -> "Tombstone":
        """Return the parts of the file tombstone in ``raw``.

        Raise ``StoreDamagedError`` or ``StoreNewerError``, which name the file.
        """
        body = unframed(raw, _MAGIC, FORMAT_VERSION, name=TOMBSTONE, damaged=_damaged)
        if len(body) != _LAYOUT.size:
            raise _damaged()
        _, _, store_id, epoch, sequence, chain, time = _LAYOUT.unpack(body)
        if time > _MOST_MICROSECONDS:
            raise _damaged()
        return cls(store_id, Position(epoch, sequence, chain), time)

    def __str__(self) -> str:
        """Return text for people: day, store, and the ``Keyhouse-State`` of its end."""
        when = _EPOCH_BEGIN + timedelta(microseconds=self.time)
        epoch, sequence, chain = self.position.epoch, self.position.sequence, self.position.chain
        return (
            f"SealMode Disabled came into force on {when:%Y-%m-%dT%H:%M:%SZ}, and store"
            f" {self.store_id.hex()} was erased at {epoch}.{sequence}.{chain[:8].hex()}"
        )


def _damaged() -> StoreDamagedError:
    return StoreDamagedError(
        f"{TOMBSTONE} is damaged",
        hint="restore the state directory from a backup; only if a manifest with SealMode Disabled"
        " was in force, remove the file while Keyhouse is stopped",
    )

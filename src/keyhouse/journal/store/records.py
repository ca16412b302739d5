"""What a store keeps: sealed records, chained, and the start of their epoch. None of it is secret.

The chain value behind a record is a hash of the record and of the chain value before it. So a place
in the journal is the same place only where all records before it are the same.
"""

import hashlib
from typing import Final

import msgspec

CHAIN_SIZE = 32

KEPT_PLACES: Final = 1000
"""Places that a ``Trail`` knows at least: the newest ones."""


class Sealed(msgspec.Struct, frozen=True):
    """One encrypted record as the store keeps it."""

    sequence: int
    header: bytes
    nonce: bytes
    ciphertext: bytes


class Position(msgspec.Struct, frozen=True):
    """A place in the journal: after the record ``sequence``, whose chain value is ``chain``."""

    epoch: int
    sequence: int
    chain: bytes  # 32 bytes


class EpochStart(msgspec.Struct, frozen=True):
    """The unencrypted description of the present epoch.

    The store is not trusted with it: the tag of the first record authenticates ``previous`` and
    ``first``, every tag ``store_id`` and ``epoch``. A wrong ``key_check`` only refuses a key.
    """

    store_id: bytes  # 16 bytes
    epoch: int  # from 1
    first: int  # sequence of the epoch's first record
    previous: bytes  # chain value before that record, 32 bytes
    key_check: bytes  # tells whether a data key belongs to this epoch, 32 bytes

    @property
    def before(self) -> Position:
        """The place that the epoch's first record follows."""
        return Position(self.epoch, self.first - 1, self.previous)


class Batch(msgspec.Struct, frozen=True):
    """One consistent read of the store. ``start`` is None only in an empty store.

    ``head``: where the store ends, at the same moment; known at least in a batch without records.
    """

    start: EpochStart | None
    records: tuple[Sealed, ...]
    head: Position | None = None


class Note(msgspec.Struct, frozen=True):
    """What a replica leaves in a shared store for others. Nothing in it is proven.

    ``kind`` is ``ask``, ``give``, ``member`` or ``switch``. There is one of each kind and name.
    """

    kind: str
    name: bytes  # at most 64 bytes
    raw: bytes  # at most 64 KiB


class Beside(msgspec.Struct, frozen=True):
    """What a shared store commits together with an epoch. One that has one writer keeps none of it.

    ``sealed``: the sealed data key of each machine that is named. ``notes`` replace those of their
    kinds.
    """

    recovery_index: bytes = b""
    sealed: tuple[tuple[bytes, bytes], ...] = ()
    notes: tuple[Note, ...] = ()


NOTHING: Final = Beside()


def first_link(store_id: bytes) -> bytes:
    """Return the chain value before the first record of the first epoch."""
    return hashlib.sha256(b"keyhouse journal chain v1\0" + store_id).digest()


def link(chain: bytes, sealed: Sealed) -> bytes:
    """Return the chain value behind ``sealed``, which follows the chain value ``chain``."""
    digest = hashlib.sha256(chain + sealed.header + sealed.nonce + sealed.ciphertext)
    return digest.digest()


def follow(after: Position, *records: Sealed) -> Position:
    """Return the place behind ``records``, which follow ``after``."""
    chain = after.chain
    for sealed in records:
        chain = link(chain, sealed)
    return Position(after.epoch, records[-1].sequence, chain) if records else after


class Trail:
    """The newest places of one journal. Of its own writes it knows the places behind them."""

    def __init__(self) -> None:
        self._places: dict[int, Position] = {}

    def passed(self, *places: Position) -> None:
        """Take note of ``places``, which ascend."""
        for place in places:
            self._places[place.sequence] = place
        if len(self._places) > 2 * KEPT_PLACES:  # rarely, and then many: most writes pay nothing
            self._places = dict(list(self._places.items())[-KEPT_PLACES:])

    def at(self, sequence: int) -> Position | None:
        """Return the place after the record ``sequence``; None if it is not known."""
        return self._places.get(sequence)

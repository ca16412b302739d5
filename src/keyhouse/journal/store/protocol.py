"""The interface of a store, where the journal keeps its records, and what it is given to keep.

Records are sealed and chained; nothing that a store has is secret. The chain value behind a record
is a hash of the record and of the chain value before it. So a place in the journal is the same
place only where all records before it are the same.
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final, Protocol

import msgspec

from keyhouse.base.errors import BrokenError, UnavailableError

CHAIN_SIZE = 32
STORE_ID_SIZE = 16

KEPT_PLACES: Final = 1000
"""Places that a ``Trail`` knows at least: the newest ones."""

Step = Callable[[str], None]
"""Called with a name before each durable step and once after the last: the crash points."""


Fence = Callable[[], None]
"""Raises ``SupersededError`` if another process has taken the directory of the store."""


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
    digest = hashlib.sha256(chain + sealed.header + sealed.nonce)
    digest.update(sealed.ciphertext)  # by itself: a copy of a large one takes as long as its hash
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


def no_fence() -> None:
    """Do nothing: the ``Fence`` of a store that no other process can have."""


def no_step(_name: str) -> None:
    """Do nothing: the ``Step`` in production."""


class StoreConflictError(UnavailableError):
    """Another writer was first; nothing was written. Catch up, and decide again."""

    code = "store-conflict"


class StoreFullError(UnavailableError):
    """The disk is full; nothing was written. Reads still work."""

    code = "store-full"


class StoreUnreadableError(UnavailableError):
    """The store did not answer a read, or could not be opened; nothing was written."""

    code = "store-unreadable"


class StoreLockedError(UnavailableError):
    """Another process has the store open."""

    code = "store-locked"


class OutcomeUnknownError(BrokenError):
    """It is unknown whether the write is in the store: read it back before anything else."""

    code = "store-outcome-unknown"


class SupersededError(BrokenError):
    """Another process has taken the store; this one must neither answer nor write."""

    code = "superseded"


class StoreDamagedError(BrokenError):
    """The stored bytes are not what Keyhouse wrote."""

    code = "store-damaged"


class StoreNewerError(BrokenError):
    """Written by a newer version of Keyhouse; the message names both format versions."""

    code = "store-newer"


class Store(Protocol):
    """Durable, ordered, untrusted: it may lose, repeat or change what it is given.

    Sequence numbers are global: they continue from one epoch to the next and never restart. Others
    may write to the same store, also from other machines; each writer has an object of its own.

    ``is_whole`` is False from when the newest records were found to be missing until an epoch has
    replaced all.

    Every call returns or raises in bounded time, and leaves the event loop free meanwhile. A call
    that was cancelled or raised ``OutcomeUnknownError`` may still take effect, until ``settle`` has
    returned.
    """

    is_whole: bool

    async def append(self, expected: Position, records: Sequence[Sealed], head: Position) -> None:
        """Return once all ``records`` are durable, in one transaction.

        The store must end exactly at ``expected``, and then ends at ``head``. Raises
        ``StoreConflictError`` if it ends elsewhere, ``StoreFullError`` (nothing was written), or
        ``OutcomeUnknownError``.
        """
        ...

    async def read(self, after_seq: int) -> Batch:
        """Return the records of the present epoch after ``after_seq``, a bounded number of them.

        Call it again with the last sequence received until a batch has no records, or its last one
        is at its head.
        """
        ...

    async def head(self) -> Position | None:
        """Return where the store ends; None if it is empty."""
        ...

    async def begin_epoch(
        self,
        expected: Position | None,
        start: EpochStart,
        records: Iterable[Sealed],
        beside: Beside = NOTHING,
        /,
    ) -> None:
        """Replace everything older by ``records``, in one transaction.

        ``expected``: as for ``append``, None for an empty store. ``records`` is consumed off the
        event loop; an error of it undoes everything and is raised. The bytes of the older records
        are gone from the live files when this returns, or, if the store could not do that now,
        before its next write. Errors as for ``append``.
        """
        ...

    async def settle(self) -> Position | None:
        """Return where the store ends, and fence off what was begun before.

        When this returns, no earlier write through this object can take effect any more, so what
        the store holds now is the outcome of all of them. Raises ``UnavailableError`` if it cannot
        be told now.
        """
        ...

    def turn(self) -> AbstractAsyncContextManager[None]:
        """Return a context in which other writers most likely do not write.

        It is only a hint: a write in it may meet a conflict like any other. Nobody waits for it
        longer than a quarter of a second, and it may end before the block. It raises nothing.
        """
        ...

    def watch(self, changed: Callable[[], None]) -> None:
        """Call ``changed`` on the event loop whenever another writer may have written.

        As a hint, and every now and then in any case. A store that has one writer never calls it.
        """
        ...

    async def close(self) -> None:
        """Release the store. It may be closed twice."""
        ...


class Notes(Protocol):
    """Where the replicas of one shared store leave notes for each other. Untrusted, like the store.

    Both calls raise ``UnavailableError`` where the store does not answer.
    """

    async def notes(self, kind: str, names: Sequence[bytes] | None = None) -> tuple[Note, ...]:
        """Return the notes of ``kind``, the newest first: a bounded number of bounded size.

        With ``names`` only those of these names: a flood of others does not displace them.
        """
        ...

    async def put_note(self, note: Note) -> None:
        """Leave ``note`` in place of the one of its kind and name; old ones of its kind may go."""
        ...

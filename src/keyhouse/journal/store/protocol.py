"""Define the interface of a store, and the values that the journal stores.

The journal writes sealed records; no part of a record is secret. Each record has a chain value: the
SHA-256 hash of the chain value before the record, and of the record. So two places of a journal are
equal only if all records before the places are equal.

A store may separate an append from its flush (``append_early``). Other writers then continue after
the records before the records are durable. A crash may remove such records, and always removes all
records after them, too. So each reader flushes before an answer depends on the records. Decision
0072 has the reasons.

Every write names the place where the writer expects the end of the store. The store compares epoch,
sequence number and chain value before it writes. So a writer never appends to a record that the
writer has not read, and of two writers at one place only one succeeds. The tag of a record covers
the chain value, so readers refuse the record at any other place.

The answer to a write may be lost, for example with a connection. Then only ``settle`` can determine
the outcome: it first makes sure that no earlier write of this writer takes effect any more, and
then reads the end of the store. The decision 0034 has the reasons.
"""

import hashlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final, Protocol

import msgspec

from keyhouse.base.errors import BrokenError, UnavailableError

CHAIN_SIZE = 32  # bytes of SHA-256
STORE_ID_SIZE = 16  # bytes: 128 random bits collide with no other store

KEPT_PLACES: Final = 1000
"""The least number of the newest places in a ``Trail``.

Replicas compare places that clients have seen with them. The decision 0043 has the number.
"""

Step = Callable[[str], None]
"""Receives a name before each durable step and after the last step. Tests crash the process there.
"""


Fence = Callable[[], None]
"""Raises ``SupersededError`` if another process now owns the directory of the store."""


class Sealed(msgspec.Struct, frozen=True):
    """One encrypted record as stored."""

    sequence: int
    header: bytes
    nonce: bytes
    ciphertext: bytes


class Position(msgspec.Struct, frozen=True):
    """A place in the journal: after the record ``sequence``, with the chain value ``chain``."""

    epoch: int
    sequence: int
    chain: bytes  # 32 bytes


class EpochStart(msgspec.Struct, frozen=True):
    """The unencrypted description of the present epoch.

    The store is untrusted, so records authenticate the description. The tag of the first record
    covers ``previous`` and ``first``; every tag covers ``store_id`` and ``epoch``. A wrong
    ``key_check`` can only make the journal refuse a right key.
    """

    store_id: bytes  # 16 bytes
    epoch: int  # starts at 1
    first: int  # sequence of the epoch's first record
    previous: bytes  # chain value before the first record, 32 bytes
    key_check: bytes  # identifies the data key of this epoch, 32 bytes

    @property
    def before(self) -> Position:
        """Return the place before the epoch's first record."""
        return Position(self.epoch, self.first - 1, self.previous)


Flush = Callable[[], Awaitable[None]]
"""Return after everything is durable that the store had at an earlier read or append.

The read or the append returned this function. The result does not depend on the content of the
store now. Raises ``OutcomeUnknownError`` if the server may have crashed or changed since: the
records may be gone. Then read the store again, and use the function of that read.
"""


class Batch(msgspec.Struct, frozen=True):
    """One consistent read of the store. ``start`` is None only in an empty store.

    ``head`` is the end of the store at the same moment. Without records, ``head`` is always given.
    ``flush`` makes the records and all earlier records durable; None: all of them are durable.
    """

    start: EpochStart | None
    records: tuple[Sealed, ...]
    head: Position | None = None
    flush: Flush | None = None


class Note(msgspec.Struct, frozen=True):
    """A message between replicas, in a shared store. Nothing in a note is proven.

    ``kind`` is ``ask``, ``give``, ``member`` or ``switch``. A newer note replaces an older note of
    the same kind and name.
    """

    kind: str
    name: bytes  # at most 64 bytes
    raw: bytes  # at most 64 KiB


class Beside(msgspec.Struct, frozen=True):
    """Data that a shared store commits with an epoch. A store of one writer ignores the data.

    ``sealed`` has pairs of a machine and its sealed data key. ``notes`` replace all notes of their
    kinds.
    """

    recovery_index: bytes = b""
    sealed: tuple[tuple[bytes, bytes], ...] = ()
    notes: tuple[Note, ...] = ()


NOTHING: Final = Beside()


def first_link(store_id: bytes) -> bytes:
    """Return the chain value before the first record of the store ``store_id``."""
    return hashlib.sha256(b"keyhouse journal chain v1\0" + store_id).digest()


def link(chain: bytes, sealed: Sealed) -> bytes:
    """Return the chain value after ``sealed``, which follows the chain value ``chain``."""
    digest = hashlib.sha256(chain + sealed.header + sealed.nonce)
    # A concatenation would copy a large ciphertext, and take as long as the hash.
    digest.update(sealed.ciphertext)
    return digest.digest()


def follow(after: Position, *records: Sealed) -> Position:
    """Return the place after ``records``, which follow ``after``."""
    chain = after.chain
    for sealed in records:
        chain = link(chain, sealed)
    return Position(after.epoch, records[-1].sequence, chain) if records else after


class Trail:
    """The newest places of one journal: of each write, the place after its last record.

    After a crash of the database, the trail shows whether a change is lost. The trail also shows
    whether this journal continues a state that a client has seen.
    """

    def __init__(self) -> None:
        self._places: dict[int, Position] = {}

    def record(self, *places: Position) -> None:
        """Record the ``places`` of new records, in ascending order.

        The trail keeps all ``places`` until the next call, even more than ``KEPT_PLACES``. After a
        crash of the database, one read may return so many records, and the place of each record
        shows whether a change was lost.
        """
        for place in places:
            self._places[place.sequence] = place
        # Old places are dropped rarely and many at once, so most writes cost nothing here.
        if len(self._places) > 2 * KEPT_PLACES:
            kept = max(KEPT_PLACES, len(places))
            self._places = dict(list(self._places.items())[-kept:])

    def at(self, sequence: int) -> Position | None:
        """Return the place after the record ``sequence``; None if unknown."""
        return self._places.get(sequence)

    def forget_after(self, sequence: int) -> None:
        """Remove all places after the record ``sequence``."""
        self._places = {at: each for at, each in self._places.items() if at <= sequence}


def no_fence() -> None:
    """Do nothing: the ``Fence`` of a store that no other process can open."""


def no_step(_name: str) -> None:
    """Do nothing: the ``Step`` of a coordinator. Only tests pass a step that crashes."""


class StoreConflictError(UnavailableError):
    """Another writer wrote first, so this write changed nothing. Catch up, and decide again."""

    code = "store-conflict"


class StoreFullError(UnavailableError):
    """The disk is full; nothing was written. Reads still work."""

    code = "store-full"


class StoreUnreadableError(UnavailableError):
    """The store did not answer a read, or cannot be opened; nothing was written."""

    code = "store-unreadable"


class StoreLockedError(UnavailableError):
    """Another process has the store open."""

    code = "store-locked"


class OutcomeUnknownError(BrokenError):
    """A write may or may not be in the store. Call ``settle`` next."""

    code = "store-outcome-unknown"


class SupersededError(BrokenError):
    """Another process owns the store now. This process must neither answer nor write."""

    code = "superseded"


class StoreDamagedError(BrokenError):
    """The stored bytes differ from the bytes that Keyhouse wrote."""

    code = "store-damaged"
    next_step = "restore the state from a backup"


class StoreNewerError(BrokenError):
    """A newer version of Keyhouse wrote the store. The message names both format versions."""

    code = "store-newer"


class Store(Protocol):
    """A durable and ordered store. It is untrusted: it may lose, repeat or change records.

    Sequence numbers continue from one epoch to the next and never restart. Several writers, also on
    several machines, may write to the same store. Each writer has its own object.

    ``is_whole`` is False after the store has noticed that the newest records are missing. The next
    epoch replaces all records and sets it to True.

    Every call returns or raises in bounded time, and does not block the event loop. A call that was
    cancelled or raised ``OutcomeUnknownError`` may still take effect, until ``settle`` has
    returned.
    """

    is_whole: bool

    async def append(self, expected: Position, records: Sequence[Sealed], head: Position) -> None:
        """Return after all ``records`` are durable, in one transaction.

        Before the call the store must end at ``expected``; after the call it ends at ``head``.
        Raises ``StoreConflictError`` if the store ends elsewhere, ``StoreFullError`` (nothing was
        written), or ``OutcomeUnknownError``.
        """
        ...

    async def append_early(
        self, expected: Position, records: Sequence[Sealed], head: Position
    ) -> Flush | None:
        """Append as ``append``, but return before the records are durable.

        Return the function that makes them and all earlier records durable. None: they are durable.
        """
        ...

    async def read(self, after_seq: int) -> Batch:
        """Return a bounded number of records of the present epoch after ``after_seq``.

        To read everything, repeat the call with the last received sequence number. The end is a
        batch without records, or a batch whose last record is at its head.
        """
        ...

    async def head(self) -> Position | None:
        """Return the place of the last record; None if the store is empty."""
        ...

    async def begin_epoch(
        self,
        expected: Position | None,
        start: EpochStart,
        records: Iterable[Sealed],
        beside: Beside = NOTHING,
        /,
    ) -> None:
        """Replace all older records by ``records``, in one transaction.

        ``start`` describes the new epoch. ``beside``: data for the same transaction. ``expected``
        is as for ``append``; None for an empty store. ``records`` is consumed off the event loop.
        An error of ``records`` undoes everything and is raised. The bytes of the older records are
        removed from the live files before this returns. If the store cannot remove them now, it
        does so before its next write. Errors as for ``append``.
        """
        ...

    async def settle(self) -> Position | None:
        """Settle the outcome of earlier writes through this object; return the end of the store.

        A write without an answer may still be under way. After this call, each earlier write either
        is in the store, or never will be. Everything before the returned end is durable. Raises
        ``UnavailableError`` if the outcome cannot be determined now.
        """
        ...

    def turn(self) -> AbstractAsyncContextManager[None]:
        """Return a context in which other writers probably do not write.

        A turn is only a hint: a write in a turn may meet a conflict like any write. A writer waits
        for the turn of another writer for a quarter of a second at most. A turn may end before the
        block. Raises nothing.
        """
        ...

    def watch(self, changed: Callable[[], None]) -> None:
        """Call ``changed`` on the event loop after a possible write of another writer.

        The call is a hint, and also comes from time to time without a write. A store with one
        writer never calls ``changed``.
        """
        ...

    async def close(self) -> None:
        """Release the store. May be repeated."""
        ...


class Notes(Protocol):
    """The notes of the replicas of one shared store. Untrusted, like the store.

    Both calls raise ``UnavailableError`` if the store does not answer.
    """

    async def notes(self, kind: str, names: Sequence[bytes] | None = None) -> tuple[Note, ...]:
        """Return the notes of ``kind``, the newest first: a bounded number of bounded size.

        With ``names``, return only notes with these names. So a flood of notes displaces none of
        them.
        """
        ...

    async def put_note(self, note: Note) -> None:
        """Store ``note`` in place of the note with its kind and name; may delete old notes."""
        ...

"""The interface of a store: where the journal keeps its records."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from keyhouse.base.errors import BrokenError, UnavailableError
from keyhouse.journal.store.records import (
    NOTHING,
    Batch,
    Beside,
    EpochStart,
    Note,
    Position,
    Sealed,
)

Step = Callable[[str], None]
"""Called with a name before each durable step and once after the last: the crash points."""


Fence = Callable[[], None]
"""Raises ``SupersededError`` if another process has taken the directory of the store."""


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

    Every call returns or raises in bounded time, and leaves the event loop free meanwhile. A call
    that was cancelled or raised ``OutcomeUnknownError`` may still take effect, until ``settle`` has
    returned.
    """

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
        """Return a context in which this object's next write is the next of all writers.

        It ends with that write, with the block, or with the connection; a write after that may meet
        a conflict like any other. Raises ``UnavailableError``.
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

    async def notes(self, kind: str) -> tuple[Note, ...]:
        """Return the notes of ``kind``, the newest first: a bounded number of bounded size."""
        ...

    async def put_note(self, note: Note) -> None:
        """Leave ``note`` in place of the one of its kind and name; old ones of its kind may go."""
        ...

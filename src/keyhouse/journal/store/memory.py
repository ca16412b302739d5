"""Store the journal in memory, for the seal mode ``Disabled``."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext

from keyhouse.journal.store.protocol import (
    NOTHING,
    Batch,
    Beside,
    EpochStart,
    Position,
    Sealed,
    StoreConflictError,
    follow,
)

_BATCH_RECORDS = 1000  # chosen, as in SQLite


class MemoryStore:
    """Stores the records of the present epoch in a list, for a single writer.

    Tests use several writers. A turn does not hold back any writer then, and ``watch`` reports no
    changes.
    """

    is_whole = True

    def __init__(self) -> None:
        self._start: EpochStart | None = None
        self._records: list[Sealed] = []
        self._head: Position | None = None

    async def append(self, expected: Position, records: Sequence[Sealed], head: Position) -> None:
        """Append ``records``; raise ``StoreConflictError`` if the end is not ``expected``."""
        self._compare(expected)
        self._records.extend(records)
        self._head = head

    async def append_early(
        self, expected: Position, records: Sequence[Sealed], head: Position
    ) -> None:
        """Append as ``append``: an early return has no use for a single writer."""
        await self.append(expected, records, head)

    async def read(self, after_seq: int) -> Batch:
        """Return up to 1,000 records of the present epoch after ``after_seq``."""
        if self._start is None:
            return Batch(None, ())
        index = max(after_seq + 1 - self._start.first, 0)
        return Batch(self._start, tuple(self._records[index : index + _BATCH_RECORDS]), self._head)

    async def head(self) -> Position | None:
        """Return the place of the last record; None if the store is empty."""
        return self._head

    async def begin_epoch(
        self,
        expected: Position | None,
        start: EpochStart,
        records: Iterable[Sealed],
        _beside: Beside = NOTHING,
        /,
    ) -> None:
        """Replace all records by ``records``, consumed in a thread."""
        self._compare(expected)
        base, head = await asyncio.to_thread(_placed, start, records)
        # Another writer may have written while the thread consumed the base.
        self._compare(expected)
        self._start, self._records, self._head = start, base, head

    async def settle(self) -> Position | None:
        """Return the end of the store: every write ends at once."""
        return self._head

    def turn(self) -> AbstractAsyncContextManager[None]:
        """Return a context without an effect: no writer waits for another writer."""
        return nullcontext()

    def watch(self, changed: Callable[[], None]) -> None:
        """Do nothing: this store reports no changes of other writers."""

    async def close(self) -> None:
        """Do nothing: another journal may still use the store."""

    def _compare(self, expected: Position | None) -> None:
        if self._head != expected:
            raise StoreConflictError("another writer appended to the store in memory")


def _placed(start: EpochStart, records: Iterable[Sealed]) -> tuple[list[Sealed], Position]:
    """Return ``records``, which begin the epoch of ``start``, and the place after them."""
    base = list(records)
    return base, follow(start.before, *base)

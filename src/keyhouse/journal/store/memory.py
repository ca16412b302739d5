"""A store in memory: for seal mode ``Disabled``, and for two journals over one store in tests."""

import asyncio
from collections.abc import Iterable, Sequence

from keyhouse.journal.store.protocol import Batch, EpochStart, Head, Sealed, StoreConflictError

__all__ = ["MemoryStore"]

_BATCH_RECORDS = 1000


class MemoryStore:
    """Keeps the records of the present epoch in a list. Several journals may share one."""

    def __init__(self) -> None:
        self._start: EpochStart | None = None
        self._records: list[Sealed] = []

    async def append(self, expected_seq: int, records: Sequence[Sealed]) -> None:
        """Keep ``records``; raise ``StoreConflictError`` if the store ends elsewhere."""
        self._compare(expected_seq)
        self._records.extend(records)

    async def read(self, after_seq: int) -> Batch:
        """Return up to 1,000 records of the present epoch after ``after_seq``."""
        if self._start is None:
            return Batch(None, ())
        index = max(after_seq + 1 - self._start.first, 0)
        return Batch(self._start, tuple(self._records[index : index + _BATCH_RECORDS]))

    async def head(self) -> Head:
        """Return where the store ends."""
        if self._start is None:
            return Head(0, 0)
        return Head(self._start.epoch, self._start.first - 1 + len(self._records))

    async def begin_epoch(
        self, expected_seq: int, start: EpochStart, records: Iterable[Sealed]
    ) -> None:
        """Replace everything by ``records``, which are consumed in a thread."""
        self._compare(expected_seq)
        base = await asyncio.to_thread(list, records)
        # Others may have written while the base was made.
        self._compare(expected_seq)
        self._start, self._records = start, base

    async def close(self) -> None:
        """Do nothing: other journals may still use it, and its memory ends with the process."""

    def _compare(self, expected_seq: int) -> None:
        at = 0 if self._start is None else self._start.first - 1 + len(self._records)
        if at != expected_seq:
            raise StoreConflictError(f"the store is at sequence {at}, not at {expected_seq}")

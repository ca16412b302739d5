"""The thread of a store: what is left of a call that has ended."""

import asyncio
import gc
import time
import weakref
from functools import partial

from support.process.server import PATIENCE

from keyhouse.journal.store.worker import Worker


class Large:
    """Stands for the records of a write."""

    def size(self) -> int:
        """Return a number."""
        return 22


async def test_thread_that_waits_has_nothing_left_of_its_last_call() -> None:
    """With the collector off: a cycle would keep it, too."""
    worker = Worker("test")
    records = Large()
    left = weakref.ref(records)
    gc.disable()
    try:
        assert await worker.run(partial(Large.size, records)) == 22
        del records
        deadline = time.monotonic() + PATIENCE
        while left() is not None and time.monotonic() < deadline:
            await asyncio.sleep(0)  # the worker answers before it has returned from the call
        assert left() is None
    finally:
        gc.enable()
        await worker.close()

"""The thread of a store: references after the end of a call."""

import asyncio
import gc
import threading
import weakref
from functools import partial

from support.process.server import PATIENCE

from keyhouse.journal.store.sqlite_file import Worker


class Large:
    """Represents the records of a write."""

    def size(self) -> int:
        """Return a number."""
        return 22


async def test_thread_that_waits_has_nothing_left_of_its_last_call() -> None:
    """The collector is off: a cycle would keep the records, too."""
    worker = Worker("test")
    records, released = Large(), threading.Event()
    weakref.finalize(records, released.set)
    gc.disable()
    try:
        assert await worker.run(partial(Large.size, records)) == 22
        del records
        assert await asyncio.to_thread(released.wait, PATIENCE)
    finally:
        gc.enable()
        await worker.close()

"""Run the blocking calls of one object on a thread."""

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import TypeVar

T = TypeVar("T")


class Worker:
    """Run calls one after the other on one thread, which lives until ``close``.

    A call costs less than with ``asyncio.to_thread``, which has a pool and copies the context. All
    calls run on the same thread.
    """

    def __init__(self, name: str) -> None:
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._closed = False
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    async def run(self, call: Callable[[], T]) -> T:
        """Return the result of ``call`` or raise its error.

        The cancellation of the caller does not stop ``call``.
        """
        if self._closed:
            raise RuntimeError("the worker is closed")
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()

        def work() -> None:
            try:
                result = call()
            except BaseException as exc:  # noqa: BLE001 - all of it belongs to the caller
                _deliver(loop, done, exc, None)
            else:
                _deliver(loop, done, None, result)

        self._calls.put(work)
        return await done

    async def close(self) -> None:
        """Return after all submitted calls have run and the thread has ended."""
        if not self._closed:
            self._closed = True
            self._calls.put(None)
        await asyncio.to_thread(self._thread.join)

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            call()
            # While the thread waits, it must not keep any part of a call: a write can have 20 MB.
            del call


def _deliver(
    loop: asyncio.AbstractEventLoop,
    done: "asyncio.Future[T]",
    error: BaseException | None,
    result: T | None,
) -> None:
    def settle() -> None:
        if done.cancelled():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)  # type: ignore[arg-type] # None only where T allows it

    try:
        loop.call_soon_threadsafe(settle)
    except RuntimeError:
        # The loop is closed, so no task awaits the result.
        return

"""Costly work: how much of it runs at once, how much may wait, and who is next.

Without a bound, callers who ask often enough keep all others waiting, and their requests in memory.
In the order of arrival, a client with a hundred requests takes a hundred turns before the next one.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, TypeVar

from keyhouse.base.errors import UnavailableError

T = TypeVar("T")

QUEUED: Final[ContextVar[Callable[[bool], None] | None]] = ContextVar("QUEUED", default=None)
"""Is told True when a caller begins to wait in a ``FairQueue``, and False when its turn comes.

So what has a body in memory knows whether it may still be given up.
"""


class TooManyRequestsError(UnavailableError):
    """More callers wait than there are places."""


class ConcurrencyLimit:
    """``most`` callers at a time; one more is refused with ``refusal``.

    Used on the event loop's thread.
    """

    def __init__(self, most: int, refusal: str) -> None:
        self._most = most
        self._refusal = refusal
        self._taken = 0

    @contextmanager
    def one(self) -> Iterator[None]:
        """Take a place for as long as the context lasts. Raises ``TooManyRequestsError``."""
        if self._taken >= self._most:
            raise TooManyRequestsError(self._refusal, hint="try again later")
        self._taken += 1
        try:
            yield
        finally:
            self._taken -= 1


class FairQueue:
    """Runs ``at_once`` pieces of work; clients that wait in ``limit`` have their turns in rounds.

    A client waits for one piece of work of each other client at most, whatever they ask for.
    Used on the event loop's thread. Source: "fair queueing", RFC 970.
    """

    def __init__(self, limit: ConcurrencyLimit, at_once: int = 1) -> None:
        self._limit = limit
        self._free = at_once
        self._waiting = OrderedDict[Hashable, dict[asyncio.Future[None], None]]()
        self._running: set[asyncio.Task[Any]] = set()

    async def run(self, work: Callable[[], Awaitable[T]], client: Hashable = None) -> T:
        """Return what ``work`` returns, which begins in the client's turn.

        ``client`` is equal for all callers that share turns; without it each caller is one. A
        caller who leaves while it waits leaves nothing behind; what has begun runs to its end.

        Raises ``TooManyRequestsError``.
        """
        with self._limit.one():
            await self._turn(object() if client is None else client)
            task = asyncio.get_running_loop().create_task(_awaited(work))
            self._running.add(task)
            task.add_done_callback(self._ended)
            try:
                return await asyncio.shield(task)
            finally:
                del task  # an error of the task has this frame, which would have the task

    async def _turn(self, client: Hashable) -> None:
        if self._free:
            self._free -= 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(client, {})[turn] = None
        tell = QUEUED.get() or _say_nothing
        tell(True)  # noqa: FBT003 - the one thing it takes
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._forget(client, turn)
            else:  # it came and the caller left at the same time
                self._pass_on()
            raise
        tell(False)  # noqa: FBT003 - as above

    def _forget(self, client: Hashable, turn: "asyncio.Future[None]") -> None:
        turns = self._waiting.get(client, {})
        turns.pop(turn, None)
        if not turns:
            self._waiting.pop(client, None)

    def _pass_on(self) -> None:
        """Give a turn that is over to the client whose last one is the longest ago."""
        while self._waiting:
            client, turns = self._waiting.popitem(last=False)
            turn = next(iter(turns))
            del turns[turn]
            if turns:
                self._waiting[client] = turns
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # told to the caller, if there still is one
        self._pass_on()


class BoundedExecutor:
    """``at_once`` threads called ``name``, with a ``FairQueue`` of callers in ``limit``."""

    def __init__(self, name: str, limit: ConcurrencyLimit, at_once: int = 1) -> None:
        self._queue = FairQueue(limit, at_once)
        self._threads = ThreadPoolExecutor(at_once, thread_name_prefix=name)

    async def run(self, work: Callable[[], T], client: Hashable = None) -> T:
        """Return what ``work`` returns, off the event loop: as ``FairQueue.run`` does."""
        loop = asyncio.get_running_loop()
        return await self._queue.run(lambda: loop.run_in_executor(self._threads, work), client)

    def close(self) -> None:
        """Give the threads back."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _say_nothing(_: bool) -> None:  # noqa: FBT001 - as above
    """Nobody asked to be told."""


async def _awaited(work: Callable[[], Awaitable[T]]) -> T:
    return await work()

"""Limits costly work: how much runs at once, how much waits, and who is next.

Without a limit, frequent callers would delay all other callers and fill the memory with their
requests. In the order of arrival, a client with a hundred requests would have a hundred turns
before the next client.
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
"""Receives True when a caller begins to wait in a ``FairQueue``, and False in its turn.

So the owner of a body knows whether the request may still be dropped.
"""


class TooManyRequestsError(UnavailableError):
    """The number of simultaneous callers is at its limit."""


class ConcurrencyLimit:
    """Admits ``most`` callers at a time, and refuses further callers with the text ``refusal``.

    Use on the event loop's thread only.
    """

    def __init__(self, most: int, refusal: str) -> None:
        self._most = most
        self._refusal = refusal
        self._active = 0

    @contextmanager
    def one(self) -> Iterator[None]:
        """Count as an active caller during the context.

        Raises ``TooManyRequestsError`` if the number of active callers is at the limit.
        """
        if self._active >= self._most:
            raise TooManyRequestsError(self._refusal, hint="try again later")
        self._active += 1
        try:
            yield
        finally:
            self._active -= 1


class FairQueue:
    """Runs ``at_once`` pieces of work. Waiting clients take turns in rounds.

    ``limit`` bounds the number of callers, running and waiting.

    Before its turn, a client waits for at most one piece of work of each other client. The number
    of their requests does not matter. Use on the event loop's thread only. Source: "fair queueing",
    RFC 970.
    """

    def __init__(self, limit: ConcurrencyLimit, at_once: int = 1) -> None:
        self._limit = limit
        self._free = at_once
        self._waiting = OrderedDict[Hashable, dict[asyncio.Future[None], None]]()
        self._running: set[asyncio.Task[Any]] = set()

    async def run(self, work: Callable[[], Awaitable[T]], client: Hashable = None) -> T:
        """Return the result of ``work``, which begins in the client's turn.

        Callers with an equal ``client`` share turns; each caller without a ``client`` has turns of
        its own. If a caller is cancelled while it waits, its work never begins. Work that has begun
        continues to its end. Raises ``TooManyRequestsError``.
        """
        with self._limit.one():
            await self._turn(object() if client is None else client)
            task = asyncio.get_running_loop().create_task(_awaited(work))
            self._running.add(task)
            task.add_done_callback(self._ended)
            try:
                return await asyncio.shield(task)
            finally:
                # An error of the task refers to this frame, which would refer to the task.
                del task

    async def _turn(self, client: Hashable) -> None:
        if self._free:
            self._free -= 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(client, {})[turn] = None
        report = QUEUED.get() or _ignore
        report(True)  # noqa: FBT003 - its only argument
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._forget(client, turn)
            # The turn came, and the caller left at the same time.
            else:
                self._pass_on()
            raise
        report(False)  # noqa: FBT003 - as above

    def _forget(self, client: Hashable, turn: "asyncio.Future[None]") -> None:
        turns = self._waiting.get(client, {})
        turns.pop(turn, None)
        if not turns:
            self._waiting.pop(client, None)

    def _pass_on(self) -> None:
        """Start the work of the waiting client whose last turn is the longest ago."""
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
            # The caller receives the exception, if there still is a caller.
            task.exception()
        self._pass_on()


class BoundedExecutor:
    """A pool of ``at_once`` threads. Waiting clients take turns as in ``FairQueue``.

    ``name`` begins the names of the threads. ``limit`` bounds the number of callers.
    """

    def __init__(self, name: str, limit: ConcurrencyLimit, at_once: int = 1) -> None:
        self._queue = FairQueue(limit, at_once)
        self._threads = ThreadPoolExecutor(at_once, thread_name_prefix=name)

    async def run(self, work: Callable[[], T], client: Hashable = None) -> T:
        """Return the result of ``work`` in a thread.

        ``client`` decides the turn, as in ``FairQueue.run``.
        """
        loop = asyncio.get_running_loop()
        return await self._queue.run(lambda: loop.run_in_executor(self._threads, work), client)

    def close(self) -> None:
        """End the threads."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _ignore(_: bool) -> None:  # noqa: FBT001 - as above
    """Do nothing: this caller does not need to know whether it waits or runs."""


async def _awaited(work: Callable[[], Awaitable[T]]) -> T:
    return await work()

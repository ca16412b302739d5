"""A concurrency limit, and a bounded executor for costly work: one caller too many is refused.

Without a bound, whoever asks often enough keeps all others waiting, and their requests in memory.
"""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from keyhouse.base.errors import Unavailable

__all__ = ["BoundedExecutor", "ConcurrencyLimit", "TooMany"]

T = TypeVar("T")


class TooMany(Unavailable):
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
        """Take a place for as long as the context lasts. Raises ``TooMany``."""
        if self._taken >= self._most:
            raise TooMany(self._refusal, hint="try again later")
        self._taken += 1
        try:
            yield
        finally:
            self._taken -= 1


class BoundedExecutor:
    """``at_once`` threads called ``name``, for callers who wait in ``places``."""

    def __init__(self, name: str, places: ConcurrencyLimit, at_once: int = 1) -> None:
        self._places = places
        self._threads = ThreadPoolExecutor(at_once, thread_name_prefix=name)

    async def take(self, work: Callable[[], T]) -> T:
        """Return what ``work`` returns, off the event loop.

        For a caller who leaves nothing is begun any more; what has begun goes on.

        Raises ``TooMany``.
        """
        with self._places.one():
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def close(self) -> None:
        """Give the threads back."""
        self._threads.shutdown(wait=False, cancel_futures=True)

"""Prepares commands off the event loop and submits them, again while the state moves on."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from keyhouse.coordinator import Command, Engine, View, until_current

AT_ONCE: Final = 2
"""Threads in which requests are read and commands prepared."""

T = TypeVar("T")
Prepared = TypeVar("Prepared", bound=Command)


class Preparation:
    """The threads of all use cases that prepare a change. Used on the event loop's thread."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="prepare")

    async def off_loop(self, work: Callable[[], T]) -> T:
        """Return what ``work`` returns, without keeping other requests waiting."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def submitted(self, prepare: Callable[[], Prepared]) -> tuple[Prepared, View]:
        """Return the command that ``prepare`` made last, and the view that holds it.

        ``prepare`` is called again as long as the state moves on before its command is decided.
        """

        async def change() -> tuple[Prepared, View]:
            command = await self.off_loop(prepare)
            return command, await self._engine.submit(command)

        too_fast = "the state changes faster than this request can be prepared"
        return await until_current(change, too_fast=too_fast)

    def close(self) -> None:
        """Give the threads back."""
        self._threads.shutdown(wait=False, cancel_futures=True)

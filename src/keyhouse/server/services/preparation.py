"""Prepares commands off the event loop, and prepares them again if the state changes meanwhile."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from keyhouse.coordinator import Command, Engine, View, until_current

AT_ONCE: Final = 2
"""Threads for the parsing of requests and the preparation of commands."""

T = TypeVar("T")
Prepared = TypeVar("Prepared", bound=Command)


class Preparation:
    """The threads of all use cases that prepare a change. Use on the event loop's thread only."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="prepare")

    async def off_loop(self, work: Callable[[], T]) -> T:
        """Return the result of ``work``, which runs in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def submitted(self, prepare: Callable[[], Prepared]) -> tuple[Prepared, View]:
        """Return the command that ``prepare`` returns, and the first view with its effect.

        ``prepare`` runs in a thread. It is called again if the state changes before the decision
        about its command.
        """

        async def change() -> tuple[Prepared, View]:
            command = await self.off_loop(prepare)
            application = getattr(command, "application", None)  # of an update that takes effect
            if application is not None:
                await self._engine.require_readers(application.manifest)
            return command, await self._engine.submit(command)

        too_fast = "the state changes faster than this request can be prepared"
        return await until_current(change, too_fast=too_fast)

    def close(self) -> None:
        """End the threads that prepare changes."""
        self._threads.shutdown(wait=False, cancel_futures=True)

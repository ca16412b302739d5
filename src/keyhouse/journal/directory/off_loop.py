"""Blocking work beside the event loop, which nobody leaves behind."""

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

__all__ = ["off_loop"]

P = ParamSpec("P")
T = TypeVar("T")


async def off_loop(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return what ``work`` returns, done in a thread.

    A thread cannot be stopped. Whoever is cancelled meanwhile waits for its end, so that nothing
    goes on writing in a directory that was given back.
    """
    working = asyncio.ensure_future(asyncio.to_thread(work, *args, **kwargs))
    try:
        return await asyncio.shield(working)
    finally:
        if not working.done():
            await asyncio.wait([working])

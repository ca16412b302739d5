"""Periodic work without requests: warnings about certificate expiry, and readings of the clock."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final

from keyhouse.coordinator import LOOK_EVERY, Engine, Running, warn_of_expiry

DAY: Final = 24 * 3600.0
"""Seconds between two checks of certificate expiry."""


@asynccontextmanager
async def expiry_reminders(
    engine: Engine,
    forget_answers: Callable[[], None],
    *,
    every: float = DAY,
    look: float = LOOK_EVERY,
) -> AsyncIterator[None]:
    """Check the certificates every ``every`` seconds, until the context ends.

    Each check logs the certificates that end soon, as the first manifest does. Each check also
    calls ``forget_answers``, because the cached status names expired certificates. Every ``look``
    seconds the clock is read, so that a clock jump is noticed without requests, too.
    """
    tasks = [
        asyncio.create_task(_remind(engine, forget_answers, every)),
        asyncio.create_task(_look(engine, look)),
    ]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def _look(engine: Engine, every: float) -> None:
    while True:
        await asyncio.sleep(every)
        engine.current.now()


async def _remind(engine: Engine, forget_answers: Callable[[], None], every: float) -> None:
    while True:
        await asyncio.sleep(every)
        forget_answers()
        state = engine.view.state
        if isinstance(state, Running):
            await asyncio.to_thread(warn_of_expiry, state, engine.current.now())

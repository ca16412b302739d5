"""What time brings about while nothing changes: certificates expire."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final

from keyhouse.coordinator import LOOK_EVERY, Running, warn_of_expiry

if TYPE_CHECKING:
    from keyhouse.server.client_api import Service

__all__ = ["reminded"]

DAY: Final = 24 * 3600.0
"""Seconds between two looks at the certificates."""


@asynccontextmanager
async def reminded(
    service: "Service", *, every: float = DAY, look: float = LOOK_EVERY
) -> AsyncIterator[None]:
    """Look at the certificates again and again, for as long as the context lasts.

    The log tells which end soon, as it does when a manifest is set; the status is made anew, for it
    tells of those that have expired. Every ``look`` seconds the clock is read, so that what the
    process measures itself is known also where nobody asks for anything.
    """
    tasks = [
        asyncio.create_task(_remind(service, every)),
        asyncio.create_task(_look(service, look)),
    ]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def _look(service: "Service", every: float) -> None:
    while True:
        await asyncio.sleep(every)
        service.engine.now()


async def _remind(service: "Service", every: float) -> None:
    while True:
        await asyncio.sleep(every)
        service.forget_answers()
        engine = service.engine
        state = engine.view.state
        if isinstance(state, Running):
            await asyncio.to_thread(warn_of_expiry, state, engine.now())

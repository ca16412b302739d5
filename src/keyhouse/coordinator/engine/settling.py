"""What becomes of a write whose outcome is not known, while the store does not answer."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from keyhouse.base.errors import UnavailableError, UnsettledError
from keyhouse.base.log import log
from keyhouse.coordinator.engine.writer import JournalWriter
from keyhouse.journal import OutcomeUnknownError

TELL_AFTER: Final = 10.0
"""Seconds after which the callers of a write are told that its outcome is not known."""

_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 2.0


async def settle(writer: JournalWriter, tell: Callable[[], None], stopping: asyncio.Event) -> None:
    """Return once the last write of ``writer`` is known to have happened, however long that takes.

    ``tell`` is called if it takes longer than ``TELL_AFTER``. Raises as ``JournalWriter.settle``,
    and ``OutcomeUnknownError`` only where it is still unknown when the engine stops.
    """
    log.error("the store does not answer: it is not known whether the last change is durable")
    telling = asyncio.get_running_loop().call_later(TELL_AFTER, tell)
    pause = _FIRST_PAUSE
    try:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await stopping.wait()
            pause = min(2 * pause, _LONGEST_PAUSE)
            try:
                await writer.settle()
            except OutcomeUnknownError:
                if stopping.is_set():
                    raise
            else:
                log.warning("the store answers again: the last change is durable")
                return
    finally:
        telling.cancel()


def not_settled() -> UnsettledError:
    """Return what callers of a write are told whose outcome is not known."""
    return UnsettledError(
        "the store does not answer: it is not known whether the change has happened",
        hint="it may still happen; read before you repeat it",
    )


def paused() -> UnavailableError:
    """Return what other callers are told meanwhile. Nothing of their changes was written."""
    return UnavailableError("the store does not answer", hint="try again later")

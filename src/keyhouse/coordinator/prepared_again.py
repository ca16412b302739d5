"""A change is prepared from a state, outside the engine, and counts only if that state still holds.

So it is prepared again when another change was first.
"""

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from keyhouse.base.errors import Unavailable
from keyhouse.coordinator.core.commands import Stale

__all__ = ["ATTEMPTS", "until_current"]

T = TypeVar("T")

ATTEMPTS: Final = 3
"""Preparations of one change before it is told that others change the state too fast."""


async def until_current(change: Callable[[], Awaitable[T]], *, too_fast: str) -> T:
    """Return what ``change`` returns, which prepares from the present state and submits.

    It is called again after ``Stale``. Raises ``Unavailable``, which says ``too_fast``, after
    ``ATTEMPTS`` calls; else what ``change`` raises.
    """
    for _ in range(ATTEMPTS):
        try:
            return await change()
        except Stale:
            continue
    raise Unavailable(too_fast, hint="retry")

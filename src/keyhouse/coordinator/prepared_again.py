"""Preparing a change again, while others change the state that it was prepared from."""

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from keyhouse.base.errors import UnavailableError
from keyhouse.coordinator.core.commands import StaleError

T = TypeVar("T")

ATTEMPTS: Final = 3
"""Attempts to prepare a change before it is refused because others change the state too fast."""


async def until_current(change: Callable[[], Awaitable[T]], *, too_fast: str) -> T:
    """Return the result of ``change``, which prepares from the present state and submits.

    It is called again after ``StaleError``. Raises ``UnavailableError`` with the message
    ``too_fast`` after ``ATTEMPTS`` calls, and other errors of ``change``.
    """
    for _ in range(ATTEMPTS):
        try:
            return await change()
        except StaleError:
            continue
    raise UnavailableError(too_fast, hint="retry")

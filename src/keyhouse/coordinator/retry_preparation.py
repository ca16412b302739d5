"""Repeats the preparation of a change while other changes replace its state."""

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from keyhouse.base.errors import UnavailableError
from keyhouse.coordinator.core.commands import StaleError

T = TypeVar("T")

ATTEMPTS: Final = 3
"""Attempts to prepare a change before the refusal.

After three conflicts in a row, changes come too fast for this one.
"""


async def until_current(change: Callable[[], Awaitable[T]], *, too_fast: str) -> T:
    """Return the result of ``change``, a function that prepares a command and submits it.

    Calls ``change`` again after ``StaleError``. Raises ``UnavailableError`` with the message
    ``too_fast`` after ``ATTEMPTS`` calls, and all other errors of ``change``.
    """
    for _ in range(ATTEMPTS):
        try:
            return await change()
        except StaleError:
            continue
    raise UnavailableError(too_fast, hint="retry")

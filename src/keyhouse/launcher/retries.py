"""Repeats an attempt where that helps, for a bounded time."""

import random
import time
from collections.abc import Callable
from typing import Final, Protocol, TypeVar

from keyhouse.base.errors import UnavailableError

T = TypeVar("T")

_FIRST: Final = 0.25
_LONGEST: Final = 5.0  # seconds
_LEAST: Final = 0.05


class Clock(Protocol):
    """Time that only goes forward, in seconds."""

    def now(self) -> float:
        """Return the present."""
        ...

    def sleep(self, seconds: float) -> None:
        """Return after ``seconds``."""
        ...


class MonotonicClock:
    """The host's clock."""

    def now(self) -> float:
        """Return the present."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Return after ``seconds``."""
        time.sleep(seconds)


def retry(
    attempt: Callable[[float], T],
    *,
    seconds: float,
    clock: Clock,
    told: Callable[[UnavailableError, float], None],
    fraction: Callable[[], float] = random.random,
) -> T:
    """Return what ``attempt`` returns.

    Repeat it after ``UnavailableError``, and after nothing else.

    ``attempt`` gets the seconds that are left. The pauses double from 0.25 to 5 seconds, each
    shortened by up to a half (``fraction`` is from 0 to 1), so that workloads that lost a
    coordinator together do not return together. ``told`` is called with each failure and the pause.

    Raises the last ``UnavailableError`` when no further pause and attempt fit into ``seconds``.
    """
    end = clock.now() + seconds
    pause = _FIRST
    while True:
        try:
            return attempt(max(end - clock.now(), _LEAST))
        except UnavailableError as error:
            shortened = pause * (1 - fraction() / 2)
            if clock.now() + shortened + _LEAST > end:
                raise
            told(error, shortened)
            clock.sleep(shortened)
            pause = min(2 * pause, _LONGEST)

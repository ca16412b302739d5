"""Repeat an attempt after temporary failures, for a limited time."""

import random
import time
from collections.abc import Callable
from typing import Final, Protocol, TypeVar

from keyhouse.base.errors import UnavailableError

T = TypeVar("T")

# Seconds: the first and the longest pause, and the least time of an attempt.
_FIRST: Final = 0.25
_LONGEST: Final = 5.0  # seconds
_LEAST: Final = 0.05  # seconds, so that no retry follows at once


class RetryClock(Protocol):
    """The clock for the pauses between attempts: monotonic time, in seconds."""

    def now(self) -> float:
        """Return the current time."""
        ...

    def sleep(self, seconds: float) -> None:
        """Return after ``seconds``."""
        ...


class MonotonicClock:
    """The host's clock."""

    def now(self) -> float:
        """Return the current time."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Return after ``seconds``."""
        time.sleep(seconds)


def retry(
    attempt: Callable[[float], T],
    *,
    seconds: float,
    clock: RetryClock,
    on_retry: Callable[[UnavailableError, float], None],
    fraction: Callable[[], float] = random.random,
) -> T:
    """Return the result of ``attempt``; repeat the attempt only after ``UnavailableError``.

    ``attempt`` gets the number of remaining seconds. The pauses double from 0.25 to 5 seconds. Each
    pause is shortened by a random part, up to a half; ``fraction`` returns a number from 0 to 1. So
    workloads that lost a coordinator at the same time do not return at the same time. ``on_retry``
    is called with each failure and the following pause in seconds.

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
            on_retry(error, shortened)
            clock.sleep(shortened)
            pause = min(2 * pause, _LONGEST)

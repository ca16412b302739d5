"""Where time comes from, and how it is written."""

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final, Protocol

__all__ = ["BUILD_TIME", "LOOK_EVERY", "Clock", "HostClock", "moment", "timestamp"]

BUILD_TIME: Final = 1_795_219_200_000_000
"""2026-11-21T00:00:00Z: no clock is earlier than the code that reads it. Raised by each release."""

LOOK_EVERY: Final = 3600
"""Seconds from one reading of the clock to the next, at most, in a process that runs."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

_SECOND: Final = 1_000_000  # microseconds

_LONGEST_STEP: Final = 2 * LOOK_EVERY * _SECOND


class Clock(Protocol):
    """Where the time comes from. May be read on any thread."""

    def now(self) -> int:
        """Return microseconds since 1970-01-01T00:00:00Z."""
        ...

    def elapsed(self) -> int:
        """Return microseconds since some moment of this process; setting the time changes none.

        They may be fewer than have passed, and never go back.
        """
        ...


class HostClock:
    """The host's clock, which the host may set as it likes.

    ``monotonic`` gives nanoseconds. It is CLOCK_MONOTONIC, which stands still while the machine
    sleeps: after a sleep CLOCK_BOOTTIME is set by the same clock as the time of day, so a wrong one
    would move both.
    """

    def __init__(self, monotonic: Callable[[], int] = time.monotonic_ns) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._seen = monotonic()
        self._elapsed = 0

    def now(self) -> int:
        """Return the host's time."""
        return time.time_ns() // 1000

    def elapsed(self) -> int:
        """Return what has passed, at most two hours for each reading.

        Under Gramine all clocks are the time of day, so a jump of that is a long step here. Every
        hour there is a reading: a longer step is a jump, or a pause, which counts as being off.
        """
        with self._lock:
            seen = self._monotonic()
            step = max(seen - self._seen, 0) // 1000
            self._elapsed += min(step, _LONGEST_STEP)
            self._seen = seen
            return self._elapsed


def moment(time: int) -> datetime:
    """Return microseconds since 1970 as a date, UTC."""
    return _EPOCH + timedelta(microseconds=time)


def timestamp(time: int) -> str:
    """Return microseconds since 1970 as ``2026-01-31T23:59:59.123Z``."""
    second, rest = divmod(time, _SECOND)
    return f"{_to_the_second(second)}.{rest // 1000:03}Z"


@lru_cache(maxsize=2)  # thousands of changes may come within one second
def _to_the_second(second: int) -> str:
    return moment(second * _SECOND).replace(tzinfo=None).isoformat(timespec="seconds")

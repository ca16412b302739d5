"""The clock of a deployment under test: it runs with the host's, and a test can advance it."""

import threading
import time
from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class MovableClock:
    """The host's time, less what it begins ``behind``, plus what a test has added.

    May be shared among threads.
    """

    def __init__(self, behind: timedelta = timedelta(0)) -> None:
        self._ahead = -(behind // _MICROSECOND)
        self._lock = threading.Lock()

    def now(self) -> int:
        """Return microseconds since 1970-01-01T00:00:00Z."""
        return time.time_ns() // 1000 + self._ahead

    def elapsed(self) -> int:
        """Return microseconds since some fixed moment; what a test adds counts."""
        return time.monotonic_ns() // 1000 + self._ahead

    def moment(self) -> datetime:
        """Return the time as a date, UTC."""
        return _EPOCH + self.now() * _MICROSECOND

    def advance(self, by: timedelta) -> None:
        """Jump ahead. Raises ``ValueError`` for a jump back: a coordinator has none."""
        if by < timedelta(0):
            raise ValueError("time goes ahead only")
        with self._lock:
            self._ahead += by // _MICROSECOND

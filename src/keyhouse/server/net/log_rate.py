"""Limits log entries about anonymous clients, so that these clients cannot fill a disk."""

import time
from collections.abc import Callable
from typing import Final

A_SECOND: Final = 20
"""Logged events of a kind per second. Further events are only counted."""


class Pace:
    """Admits ``A_SECOND`` events per second to the log of the process.

    Use on the event loop's thread only. ``clock`` returns seconds, and must never stand still. The
    bounded time of the coordinator is not suitable: it stands still while the host's clock is
    behind the journal, and then the log would be silent.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = clock()
        self._logged = 0
        self._suppressed = 0

    def finished(self) -> int:
        """Return the number of suppressed events in the last second, and begin the next second.

        Before the end of a second, return 0.
        """
        present = self._clock()
        if present - self._began < 1:
            return 0
        suppressed = self._suppressed
        self._began, self._logged, self._suppressed = present, 0, 0
        return suppressed

    def admits(self) -> bool:
        """Count an event. Return whether to log it."""
        if self._logged >= A_SECOND:
            self._suppressed += 1
            return False
        self._logged += 1
        return True

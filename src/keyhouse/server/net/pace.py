"""How much the log tells of what anonymous clients do: they cannot fill a disk."""

import time
from collections.abc import Callable
from typing import Final

A_SECOND: Final = 20
"""Events of one kind that are told in one second; of the others only how many there were."""


class Pace:
    """Lets ``A_SECOND`` events of each second be told. Used on the event loop's thread.

    ``clock``: seconds that never stand still. The security time does while the host's clock is
    behind the journal: nothing would be told for as long.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = clock()
        self._told = 0
        self._untold = 0

    def finished(self) -> int:
        """Return how many events were not told, once the second in which they came is over."""
        present = self._clock()
        if present - self._began < 1:
            return 0
        untold = self._untold
        self._began, self._told, self._untold = present, 0, 0
        return untold

    def admits(self) -> bool:
        """Count one more event; return whether it is to be told."""
        if self._told >= A_SECOND:
            self._untold += 1
            return False
        self._told += 1
        return True

"""What the engine counted since the process began: plain numbers, read when somebody asks."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Final

from keyhouse.base.errors import Refused, Unavailable
from keyhouse.coordinator.core.commands import Stale

__all__ = ["OUTCOMES", "EngineCounts", "Tally"]

OUTCOMES: Final = ("accepted", "refused", "stale", "unavailable", "broken")
"""What becomes of a change. ``stale``: the state had moved on, so it was prepared again."""

_COMMANDS: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256)
_SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5)


class Tally:
    """How often a value was at most each bound, and the sum of all values."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds: Final = tuple(bounds)
        self.counts: Final = [0] * (len(self.bounds) + 1)  # the last: above every bound
        self.total = 0.0

    def add(self, value: float) -> None:
        """Count one value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def include(self, counts: Sequence[int], total: float) -> None:
        """Add what was counted elsewhere by the same bounds."""
        for at, count in enumerate(counts):
            self.counts[at] += count
        self.total += total

    def cumulative(self) -> Iterator[tuple[float, int]]:
        """Yield each bound, then infinity, with the number of values that were at most that."""
        return zip((*self.bounds, float("inf")), accumulate(self.counts), strict=True)


class EngineCounts:
    """Changes by outcome, the sizes of batches, and the seconds that making one durable took."""

    def __init__(self) -> None:
        self.changes: Final = dict.fromkeys(OUTCOMES, 0)
        self.batch: Final = Tally(_COMMANDS)
        self.commit: Final = Tally(_SECONDS)

    def committed(self, commands: int, seconds: float) -> None:
        """Count a batch that is durable now."""
        self.changes["accepted"] += commands
        self.batch.add(commands)
        self.commit.add(seconds)

    def failed(self, error: BaseException) -> None:
        """Count one change that ``error`` ended."""
        self.changes[_outcome(error)] += 1


def _outcome(error: BaseException) -> str:
    if isinstance(error, Stale):
        return "stale"
    if isinstance(error, Unavailable):
        return "unavailable"
    return "refused" if isinstance(error, Refused) else "broken"

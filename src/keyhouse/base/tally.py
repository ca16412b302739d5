"""Counts of values by upper bounds, as in histograms."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Final


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

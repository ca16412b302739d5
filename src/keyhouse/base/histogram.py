"""Counts values in a histogram."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Final


class Tally:
    """A histogram: a count per upper bound, a count of larger values, the sum of all values."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds: Final = tuple(bounds)
        self.counts: Final = [0] * (len(self.bounds) + 1)  # the last counts larger values
        self.total = 0.0

    def add(self, value: float) -> None:
        """Count one value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def include(self, counts: Sequence[int], total: float) -> None:
        """Add a histogram with the same bounds: its ``counts``, and the sum of its values."""
        for at, count in enumerate(counts):
            self.counts[at] += count
        self.total += total

    def cumulative(self) -> Iterator[tuple[float, int]]:
        """Yield each bound, then infinity, with the number of values up to that bound."""
        return zip((*self.bounds, float("inf")), accumulate(self.counts), strict=True)

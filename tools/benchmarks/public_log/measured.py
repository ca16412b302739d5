"""Rows with one column for the transparency log, and timing of short calls."""

import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Final

from benchmarks.rows import Row, at_least, at_most

__all__ = ["COLUMN", "limited", "plain", "reached", "timed_us"]

COLUMN: Final = "measured"


def plain(what: str, values: Sequence[float]) -> Row:
    """Return a row without a target."""
    return Row(what, {COLUMN: list(values)})


def limited(what: str, values: Sequence[float], limit: float) -> Row:
    """Return a row with the target: median at most ``limit``."""
    return Row(what, {COLUMN: list(values)}, at_most(median(values), limit, ""))


def reached(what: str, values: Sequence[float], limit: float) -> Row:
    """Return a row with the target: median at least ``limit``."""
    return Row(what, {COLUMN: list(values)}, at_least(median(values), limit, ""))


def timed_us(work: Callable[[], object], times: int, rounds: int) -> list[float]:
    """Return the processor time of a call of ``work`` in µs, one value for each round.

    A value is the mean of ``times`` calls.
    """
    found = []
    for _ in range(rounds):
        begun = time.process_time()
        for _ in range(times):
            work()
        found.append((time.process_time() - begun) / times * 1e6)
    return found

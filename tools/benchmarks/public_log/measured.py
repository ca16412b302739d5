"""Figures of the transparency log as rows of one column, and how a short piece of work is timed."""

import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Final

from benchmarks.rows import Row, at_least, at_most

__all__ = ["COLUMN", "limited", "plain", "reached", "timed_us"]

COLUMN: Final = "measured"


def plain(what: str, values: Sequence[float]) -> Row:
    """Return a row of which nothing is wanted."""
    return Row(what, {COLUMN: list(values)})


def limited(what: str, values: Sequence[float], limit: float) -> Row:
    """Return a row whose median should be ``limit`` at most."""
    return Row(what, {COLUMN: list(values)}, at_most(median(values), limit, ""))


def reached(what: str, values: Sequence[float], limit: float) -> Row:
    """Return a row whose median should be ``limit`` at least."""
    return Row(what, {COLUMN: list(values)}, at_least(median(values), limit, ""))


def timed_us(work: Callable[[], object], times: int, rounds: int) -> list[float]:
    """Return the µs of processor time that a call of ``work`` takes, once for each round."""
    found = []
    for _ in range(rounds):
        begun = time.process_time()
        for _ in range(times):
            work()
        found.append((time.process_time() - begun) / times * 1e6)
    return found

"""Collects the problems and warnings that checks find in a value."""

from collections.abc import Iterable
from typing import Final

from keyhouse.base.errors import Problem
from keyhouse.base.printable import Place, at

MOST: Final = 1_000
"""Largest number of reported problems, and of warnings: bounds the work for a hostile value."""

_TOO_MANY: Final = Problem("", f"has more than {MOST} problems; only the first {MOST} are listed")


class TooManyError(Exception):
    """Ends a check early: the value has more than ``MOST`` (1,000) problems."""


class Findings:
    """The problems and warnings of one value. A value with a problem is refused."""

    __slots__ = ("problems", "warnings")

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.warnings: list[Problem] = []

    def refuse(self, place: Place, problem: str, hint: str = "") -> None:
        """Add a problem at ``place``. Raise ``TooManyError`` after more than ``MOST`` (1,000)."""
        self.problems.append(Problem(at(*place), problem, hint))
        if len(self.problems) > MOST:
            raise TooManyError

    def warn(self, place: Place, problem: str, hint: str = "") -> None:
        """Add a warning at ``place``. Drop warnings after the first ``MOST`` (1,000)."""
        if len(self.warnings) < MOST:
            self.warnings.append(Problem(at(*place), problem, hint))


def reported(problems: Iterable[Problem]) -> list[Problem]:
    """Return ``problems`` sorted by place, without repetitions, at most ``MOST`` (1,000).

    After dropped problems, the last item of the result says so. ``problems`` may include an earlier
    result of this function.
    """
    found = set(problems)
    kept = sorted(found - {_TOO_MANY})[:MOST]
    return kept if len(kept) == len(found) else [*kept, _TOO_MANY]

"""What the checks of one value find: problems and warnings, each at its place."""

from collections.abc import Iterable
from typing import Final

from keyhouse.base.errors import Problem
from keyhouse.base.printable import Place, at

MOST: Final = 1_000
"""Problems, and warnings, that are reported of one value: the work for a hostile one is bounded."""

_TOO_MANY: Final = Problem("", f"has more problems than the {MOST} that are told")


class TooManyError(Exception):
    """Ends the search for further problems."""


class Findings:
    """Collects problems, which refuse a value, and warnings, which do not."""

    __slots__ = ("problems", "warnings")

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.warnings: list[Problem] = []

    def refuse(self, place: Place, problem: str, hint: str = "") -> None:
        """Note a problem. Raises ``TooManyError`` after the first that is not reported."""
        self.problems.append(Problem(at(*place), problem, hint))
        if len(self.problems) > MOST:
            raise TooManyError

    def warn(self, place: Place, problem: str, hint: str = "") -> None:
        """Note a warning; those over ``MOST`` are dropped."""
        if len(self.warnings) < MOST:
            self.warnings.append(Problem(at(*place), problem, hint))


def reported(problems: Iterable[Problem]) -> list[Problem]:
    """Return each of ``problems`` once, sorted by place: at most ``MOST``, and whether more exist.

    What this returned before may be among ``problems``.
    """
    found = set(problems)
    kept = sorted(found - {_TOO_MANY})[:MOST]
    return kept if len(kept) == len(found) else [*kept, _TOO_MANY]

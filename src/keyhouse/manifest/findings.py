"""What the rules find, as they go through a manifest."""

from keyhouse.base.errors import Problem
from keyhouse.base.place import at

__all__ = ["MOST", "TOO_MANY", "Findings", "Place", "TooManyError"]

MOST = 1_000
"""Problems, and warnings, that are told of one manifest: the work for a hostile one is bounded."""

TOO_MANY = Problem("", f"has more problems than the {MOST} that are told")
"""Stands beside the others where some are left out."""

Place = tuple[str | int, ...]
"""Steps from the outside: ``("Marbles", "web", "TLS", 0)``."""


class TooManyError(Exception):
    """Ends the search for further problems."""


class Findings:
    """Collects problems, which refuse a manifest, and warnings, which do not."""

    __slots__ = ("problems", "warnings")

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.warnings: list[Problem] = []

    def refuse(self, place: Place, problem: str, hint: str = "") -> None:
        """Note a problem. Raises ``TooManyError`` after the last that is told."""
        self.problems.append(Problem(at(*place), problem, hint))
        if len(self.problems) >= MOST:
            self.problems.append(TOO_MANY)
            raise TooManyError

    def warn(self, place: Place, problem: str, hint: str = "") -> None:
        """Note a warning; after the last that is told, nothing."""
        if len(self.warnings) < MOST:
            self.warnings.append(Problem(at(*place), problem, hint))

"""What the rules find, as they go through a manifest."""

from keyhouse.wire.errors import Problem
from keyhouse.wire.place import at

__all__ = ["Findings", "Place"]

Place = tuple[str | int, ...]
"""Steps from the outside: ``("Marbles", "web", "TLS", 0)``."""


class Findings:
    """Collects problems, which refuse a manifest, and warnings, which do not."""

    __slots__ = ("problems", "warnings")

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.warnings: list[Problem] = []

    def refuse(self, place: Place, problem: str, hint: str = "") -> None:
        """Note a problem."""
        self.problems.append(Problem(at(*place), problem, hint))

    def warn(self, place: Place, problem: str, hint: str = "") -> None:
        """Note a warning."""
        self.warnings.append(Problem(at(*place), problem, hint))

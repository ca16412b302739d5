"""What became of activations since the process began: plain numbers, read when somebody asks."""

from typing import Final

from keyhouse.base.errors import KeyhouseError

__all__ = ["UNKNOWN", "ActivationCounts"]

UNKNOWN: Final = "unknown"
"""The label of all types that no manifest in force has had: one, whatever clients send."""


class ActivationCounts:
    """Attempts and successes by marble type, refusals by code. Used on the event loop's thread."""

    def __init__(self) -> None:
        self.attempts: Final[dict[str, int]] = {}
        self.successes: Final[dict[str, int]] = {}
        self.refusals: Final[dict[str, int]] = {}  # by the code of the error
        self.without_quote = 0  # successes; only in simulation there are any

    def attempted(self, label: str) -> None:
        """Count a request."""
        self.attempts[label] = self.attempts.get(label, 0) + 1

    def activated(self, label: str, *, quoted: bool) -> None:
        """Count a success."""
        self.successes[label] = self.successes.get(label, 0) + 1
        self.without_quote += not quoted

    def refused(self, problem: KeyhouseError) -> None:
        """Count a refusal. The codes are those of the classes: few."""
        self.refusals[problem.code] = self.refusals.get(problem.code, 0) + 1

"""What became of activations since the process began: plain numbers, read when somebody asks."""

from typing import Final

__all__ = ["UNKNOWN", "ActivationCounts"]

UNKNOWN: Final = "unknown"
"""The label of all types that the manifest in force does not have."""


class ActivationCounts:
    """Attempts and successes by marble type. Used on the event loop's thread."""

    def __init__(self) -> None:
        self.attempts: Final[dict[str, int]] = {}
        self.successes: Final[dict[str, int]] = {}

"""The interface of targets: a target draws cases, and judges the result of each case."""

from abc import ABC, abstractmethod
from random import Random
from typing import ClassVar

__all__ = ["FindingError", "Target"]


class FindingError(Exception):
    """The case shows a defect. The text describes the defect."""


class Target(ABC):
    """One part of Keyhouse under attack.

    A case is bytes with all data for ``judge``, so a different process can judge a written case.
    Each exception of ``judge`` is a defect, not only ``FindingError``.
    """

    name: ClassVar[str]
    about: ClassVar[str]
    """One line for ``--list``."""
    patience: ClassVar[float] = 10.0
    """Processor time in seconds until a case counts as a hang. By the clock: six times as long."""

    @abstractmethod
    def draw(self, chance: Random) -> bytes:
        """Return the next case."""

    @abstractmethod
    def judge(self, case: bytes) -> str:
        """Try ``case``; return the outcome in a few words. Raises ``FindingError``."""

    def close(self) -> None:  # noqa: B027 - most targets have no resources
        """Release the resources of the target. Afterwards the target cannot judge cases."""

"""What a campaign attacks: where its cases come from, and who judges what became of each."""

from abc import ABC, abstractmethod
from random import Random
from typing import ClassVar

__all__ = ["FindingError", "Target"]


class FindingError(Exception):
    """What must never happen has happened; the text says what."""


class Target(ABC):
    """One part of Keyhouse under attack.

    A case is bytes that hold all that ``judge`` needs, so a written case can be judged again by
    another process. What ``judge`` raises, ``FindingError`` or anything else, is a defect.
    """

    name: ClassVar[str]
    about: ClassVar[str]
    """One line for ``--list``."""
    patience: ClassVar[float] = 10.0
    """Seconds of processor time after which a case counts as a hang; six times as many by clock."""

    @abstractmethod
    def draw(self, chance: Random) -> bytes:
        """Return the next case."""

    @abstractmethod
    def judge(self, case: bytes) -> str:
        """Try ``case``; return in a few words what became of it. Raises ``FindingError``."""

    def close(self) -> None:  # noqa: B027 - most targets hold nothing
        """Let go of what is held. Nothing can be judged afterwards."""

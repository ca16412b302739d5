"""Remembers the age of verified collateral. Verifications compare the age, and raise the marks."""

from collections.abc import Mapping
from typing import Protocol

from keyhouse.attestation import Mark, newer_marks
from keyhouse.coordinator import Engine, Running, SeeCollateral


class CollateralMemory(Protocol):
    """The interface of a memory for the marks of the newest collateral: the ages of its parts."""

    def known(self) -> Mapping[str, Mark]:
        """Return the marks. They never decrease. Any thread may call this."""
        ...

    async def remember(self, marks: Mapping[str, Mark]) -> None:
        """Return after newer ``marks`` are stored durably.

        Raises ``UnavailableError`` or ``BrokenError`` if they cannot be stored.
        """
        ...


class ProcessMarks:
    """The ages of seen collateral (marks), in the memory of this process."""

    def __init__(self) -> None:
        self._known: dict[str, Mark] = {}

    def known(self) -> Mapping[str, Mark]:
        """Return the ages of the collateral that this process has seen."""
        return self._known

    async def remember(self, marks: Mapping[str, Mark]) -> None:
        """Store the ``marks`` that are newer than the stored marks."""
        self._known = {**self._known, **newer_marks(marks, self._known)}


class JournalledMarks:
    """Marks in the journal: they survive restarts, and a clock cannot reduce them.

    Without a journal there are no marks, and nothing is stored.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def known(self) -> Mapping[str, Mark]:
        """Return the marks in the present state of the journal."""
        state = self._engine.view.state
        return state.collateral_marks if isinstance(state, Running) else {}

    async def remember(self, marks: Mapping[str, Mark]) -> None:
        """Append the ``marks`` that are newer than the marks in the journal."""
        await self._engine.submit(SeeCollateral(dict(marks)))

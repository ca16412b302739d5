"""How new collateral was that quotes have verified with: asked before, told after each check."""

from collections.abc import Mapping
from typing import Protocol

from keyhouse.attestation import Mark, newer_marks
from keyhouse.coordinator import Engine, Running, SeeCollateral


class CollateralMemory(Protocol):
    """Knows the marks (``attestation.marks_of``) of the newest collateral so far."""

    def known(self) -> Mapping[str, Mark]:
        """Return the marks; they never go down. Called on any thread."""
        ...

    async def remember(self, marks: Mapping[str, Mark]) -> None:
        """Return once what is newer in ``marks`` is known for good.

        Raises ``UnavailableError`` or ``BrokenError`` if it cannot be kept.
        """
        ...


class ProcessMarks:
    """Knows what this process has seen, and no other."""

    def __init__(self) -> None:
        self._known: dict[str, Mark] = {}

    def known(self) -> Mapping[str, Mark]:
        """Return the marks of this process."""
        return self._known

    async def remember(self, marks: Mapping[str, Mark]) -> None:
        """Keep what is newer in ``marks``."""
        self._known = {**self._known, **newer_marks(marks, self._known)}


class JournalledMarks:
    """Knows what the journal says: it survives restarts, and no clock takes it back.

    While there is no journal nothing is known, and nothing is kept.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def known(self) -> Mapping[str, Mark]:
        """Return the marks of the state of now."""
        state = self._engine.view.state
        return state.collateral_marks if isinstance(state, Running) else {}

    async def remember(self, marks: Mapping[str, Mark]) -> None:
        """Journal what is newer in ``marks``."""
        await self._engine.submit(SeeCollateral(dict(marks)))

"""The view of readers: one revision of the state and its logs, shared by reference, no lock."""

from typing import Final

from keyhouse.base.errors import BrokenError
from keyhouse.coordinator.core.phases import Phase, phase_of
from keyhouse.coordinator.core.state import Running, State
from keyhouse.coordinator.core.update_log import LogView
from keyhouse.journal import Position
from keyhouse.wire.log_head import LogHead
from keyhouse.wire.state_place import Place


class View:
    """A state with its position in the journal, and the log up to that position. Immutable."""

    __slots__ = ("log", "phase", "position", "revision", "state")

    def __init__(self, state: State, position: Position | None, log: LogView) -> None:
        self.state: Final = state
        self.phase: Final[Phase] = phase_of(state)
        self.position: Final = position  # None: nothing is journalled yet
        self.log: Final = log
        self.revision: Final = _revision(position)

    @property
    def log_head(self) -> str:
        """The value of the ``Keyhouse-Log`` header; empty: no log."""
        log = self.state.public_log if isinstance(self.state, Running) else None
        return str(LogHead.of(log.frontier.size, log.frontier.root)) if log is not None else ""

    @property
    def running(self) -> Running:
        """The state; only for operations that the table of phases limits to a running one."""
        if not isinstance(self.state, Running):
            raise BrokenError("no manifest is enforced")
        return self.state


def place_of(position: Position) -> Place:
    """Return ``position`` as clients are told it."""
    return Place(position.epoch, position.sequence, position.chain[:8].hex())


def _revision(position: Position | None) -> str:
    """Return the value of the ``Keyhouse-State`` header: ``<epoch>.<sequence>.<chain, 16 hex>``."""
    if position is None:
        return ""
    return str(place_of(position))


def at(position: Position | None) -> str:
    """Return a position with its whole chain, as leaves of the transparency log have it."""
    if position is None:
        return ""
    return f"{position.epoch}.{position.sequence}.{position.chain.hex()}"

"""Publish views: the state at a position of the journal, with the update log."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final

from msgspec.structs import asdict, replace

from keyhouse.base.errors import BrokenError
from keyhouse.base.log import log
from keyhouse.coordinator.core.context import Context, Process, moment
from keyhouse.coordinator.core.events import Event
from keyhouse.coordinator.core.phases import Operation, Phase, phase_of, require
from keyhouse.coordinator.core.publishing import leaves_of
from keyhouse.coordinator.core.state import Running, State
from keyhouse.coordinator.core.update_log import UpdateLog, UpdateLogView
from keyhouse.coordinator.engine.clock import SecurityClock
from keyhouse.coordinator.engine.writer import JournalWriter
from keyhouse.coordinator.lease import Lease
from keyhouse.journal import Position
from keyhouse.wire.headers import LogHead, Place


class View:
    """A state, its position in the journal, and the update log up to this position. Immutable."""

    __slots__ = ("log", "phase", "position", "state")

    def __init__(self, state: State, position: Position | None, log: UpdateLogView) -> None:
        self.state: Final = state
        self.phase: Final[Phase] = phase_of(state)
        self.position: Final = position  # None: nothing is journalled yet
        self.log: Final = log

    @property
    def revision(self) -> str:
        """Return the value of the ``Keyhouse-State`` header; empty without a journal."""
        return "" if self.position is None else str(place_of(self.position))

    @property
    def log_head(self) -> str:
        """Return the value of the ``Keyhouse-Log`` header; empty without a log."""
        log = self.state.public_log if isinstance(self.state, Running) else None
        return str(LogHead.of(log.frontier.size, log.frontier.root)) if log is not None else ""

    @property
    def running(self) -> Running:
        """Return the state of this view. Raises ``BrokenError`` if no manifest is in force."""
        return running_of(self.state)

    def running_for(self, operation: Operation) -> Running:
        """Return the running state if ``operation`` is possible in this phase.

        Otherwise raises the error from the table of phases, such as ``WrongPhaseError``.
        """
        require(operation, self.phase)
        return self.running


def running_of(state: State) -> Running:
    """Return ``state``. Raises ``BrokenError`` if no manifest is in force in ``state``."""
    if not isinstance(state, Running):
        raise BrokenError("no manifest is in force")
    return state


def place_of(position: Position) -> Place:
    """Return ``position`` in the form for clients, with 8 bytes of the chain value."""
    return Place(position.epoch, position.sequence, position.chain[:8].hex())


def at(position: Position | None) -> str:
    """Return ``position`` as text with the whole chain value, as in leaves; empty for None."""
    if position is None:
        return ""
    return f"{position.epoch}.{position.sequence}.{position.chain.hex()}"


class Current:
    """The published view, and the context for the decision of the next change."""

    def __init__(
        self,
        writer: JournalWriter,
        clock: SecurityClock,
        process: Process,
        state: State,
        update_log: UpdateLog,
    ) -> None:
        self._writer = writer
        self._log = update_log
        self.on_view: Final[list[Callable[[], None]]] = []  # called after each new view
        # Called after each new view, with its events.
        self.on_events: Final[list[Callable[[Sequence[Event]], None]]] = []
        self.state = state  # after all writes, durable or not: for the next decision
        self._process = Context(now=0, **asdict(process))
        self.clock = clock
        self.lease: Final = Lease(clock.elapsed, process.instance)
        self.view = View(state, writer.position, update_log.view())

    def now(self) -> int:
        """Return the security time: microseconds since 1970, never before a journalled time."""
        state, now = self.state, self.clock.now()
        return max(now, state.time) if isinstance(state, Running) else now

    def moment(self) -> datetime:
        """Return the security time in UTC."""
        return moment(self.now())

    def context(self) -> Context:
        """Return the context for the decision of a change now."""
        return replace(self._process, now=self.now(), at=at(self._writer.written))

    def publish(self, state: State, events: Sequence[Event]) -> None:
        """Publish ``state``, the state after all writes. All writes are durable.

        ``events``: the events between the published state and ``state``.
        """
        self.state = state
        self.publish_durable(state, events, self._writer.position)

    def publish_durable(
        self, state: State, events: Sequence[Event], position: Position | None
    ) -> None:
        """Publish ``state``, which is durable at ``position``, although later writes may exist.

        ``events``: the events between the published state and ``state``.
        """
        self._writer.public_log.extend(leaves_of(events))
        for moved in self._log.extend(events):
            log.warning("a workload runs on another platform than before", **asdict(moved))
        self.view = View(state, position, self._log.view())
        self._writer.follow(state)
        lease = self.lease
        # Without witnesses, only another manifest concerns the lease.
        if isinstance(state, Running) and (lease.policies or state.manifest is not lease.manifest):
            lease.follow(state)
        for published in self.on_view:
            published()
        for followed in self.on_events:
            followed(events)

    def publish_again(self) -> None:
        """Publish the present view again, after new cosignatures or after a loss of records.

        Requests that wait for a lost state then read the end of the store again.
        """
        self.publish_durable(self.view.state, (), self.view.position)

    def replace(self, state: State, update_log: UpdateLog) -> None:
        """Publish ``state`` with ``update_log``, which replace the former state and log."""
        self._log = update_log
        self.publish(state, ())

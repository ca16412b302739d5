"""Queue the engine's work with its callers: commands, recoveries and the audit buffer.

The audit buffer has activations that have happened but are not in the journal yet. No caller waits
for their records. The next change commits them too, or a commit of their own after a short delay. A
crash loses the activations in the buffer. While the disk accepts no writes, the buffer fills. A
full buffer refuses activations, because each activation must be auditable.
"""

import asyncio
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from itertools import islice
from typing import Final

import msgspec

from keyhouse.base.errors import BrokenError, RefusedError, UnavailableError, UnsettledError
from keyhouse.base.histogram import Tally
from keyhouse.base.log import log
from keyhouse.coordinator.core.commands import (
    AcknowledgeUpdate,
    Command,
    InitiateUpdate,
    RecordActivations,
    SetManifest,
    StaleError,
)
from keyhouse.coordinator.core.events import Activated
from keyhouse.coordinator.core.state import State
from keyhouse.coordinator.engine.current import View
from keyhouse.coordinator.engine.recover import Recovery

DELAY: Final = 1.0
"""The longest delay of an activation's record in seconds, while the disk accepts writes."""

MANY: Final = 128
"""With this number of activations in the buffer, a record is written without further delay."""

TOGETHER: Final = 256
"""The most activations in one record."""

MOST: Final = 10_000
"""The most activations in the audit buffer."""

WAITING: Final = 1024
"""The most waiting commands. A further command is refused and may be repeated."""

BATCH: Final = 256
"""The most commands in one append."""


class Decision(msgspec.Struct, frozen=True):
    """The result of a command whose events are durable."""

    view: View  # contains the change
    before: State  # the state before the decision


class WaitingCommand(msgspec.Struct, frozen=True):
    """A command, and the caller that waits for it."""

    command: Command
    answer: "asyncio.Future[Decision] | None"  # None: no caller waits


class AcceptedCommand(msgspec.Struct, frozen=True):
    """A decided command, which takes effect when the events of the batch are durable."""

    waiting: WaitingCommand
    before: State


class AuditBuffer:
    """The queue of activations for the audit trail, oldest first.

    Times are in seconds of the event loop's clock.
    """

    def __init__(self) -> None:
        self._waiting: deque[Activated] = deque()
        self._due = 0.0

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, activated: Activated, now: float) -> bool:
        """Add an activation; return True if the engine has to compute its next wake-up again.

        Raises ``UnavailableError`` if the buffer is full.
        """
        if len(self._waiting) >= MOST:
            raise UnavailableError(
                f"the maximum of {MOST} activations waits for a record in the journal",
                hint="free space on the disk of the coordinator's store",
            )
        if not self._waiting:
            self._due = now + DELAY
        self._waiting.append(activated)
        return len(self._waiting) in {1, MANY}

    def due(self, now: float) -> bool:
        """Return whether the buffer must be written at ``now``, even without another change."""
        return bool(self._waiting) and (now >= self._due or len(self._waiting) >= MANY)

    def due_at(self) -> float | None:
        """Return the time at which the buffer has to be written; None while the buffer is empty."""
        return self._due if self._waiting else None

    def oldest(self) -> RecordActivations:
        """Return a command with the oldest activations. They stay here until ``recorded``."""
        return RecordActivations(tuple(islice(self._waiting, TOGETHER)))

    def recorded(self, record: RecordActivations, now: float) -> None:
        """Remove the activations of ``record``, which ``oldest`` returned: they are durable."""
        for _ in record.activations:
            self._waiting.popleft()
        self._due = now + DELAY

    def postpone(self, now: float) -> None:
        """Repeat the write of the buffer after ``DELAY`` seconds: the disk accepts no write now."""
        self._due = now + DELAY

    def discard(self) -> int:
        """Empty the buffer; return the number of lost activations."""
        lost = len(self._waiting)
        self._waiting.clear()
        return lost


class WaitingRecovery(msgspec.Struct, frozen=True):
    """A recovery, and the caller that waits for it."""

    recovery: Recovery
    answer: "asyncio.Future[View]"

    def fail(self, error: Exception) -> None:
        """Answer the caller of this recovery with ``error``, unless the caller has gone."""
        if not self.answer.done():
            self.answer.set_exception(error)


def goes_alone(command: Command) -> bool:
    """Return whether ``command`` begins a journal or an epoch, and so needs its own batch.

    A full update begins an epoch. So removed secrets leave the disk, and only the holders of the
    new manifest can open the new epoch.
    """
    if isinstance(command, InitiateUpdate | AcknowledgeUpdate):
        return command.application is not None
    return isinstance(command, SetManifest)


OUTCOMES: Final = ("accepted", "refused", "stale", "unavailable", "unknown", "broken")
"""The outcomes of changes.

``stale``: the state had changed, so the change was prepared again. ``unknown``: the caller learned
that the change may have happened. If it has happened, it also counts as accepted.
"""

_COMMANDS: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256)
_SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5)


class EngineCounts:
    """Changes by outcome, the sizes of batches, and the seconds until a batch was durable."""

    def __init__(self) -> None:
        self.changes: Final = dict.fromkeys(OUTCOMES, 0)
        self.batch: Final = Tally(_COMMANDS)
        self.commit: Final = Tally(_SECONDS)

    def committed(self, commands: int, seconds: float) -> None:
        """Count a batch of ``commands`` that is durable after ``seconds``."""
        self.changes["accepted"] += commands
        self.batch.add(commands)
        self.commit.add(seconds)

    def failed(self, error: BaseException) -> None:
        """Count a change that failed with ``error``."""
        self.changes[_outcome(error)] += 1


def _outcome(error: BaseException) -> str:
    if isinstance(error, StaleError):
        return "stale"
    if isinstance(error, UnavailableError):
        return "unavailable"
    if isinstance(error, UnsettledError):
        return "unknown"
    return "refused" if isinstance(error, RefusedError) else "broken"


class WorkQueue:
    """The queues of commands, recoveries and activations, open until the engine stops."""

    def __init__(self) -> None:
        self.counts: Final = EngineCounts()
        self.waiting: Final[deque[WaitingCommand]] = deque()
        self._recoveries: deque[WaitingRecovery] = deque()
        self.unrecorded: Final = AuditBuffer()
        self._recording = False  # True: the oldest activations are in an append
        self._sleeping: asyncio.Future[None] | None = None
        self.stopping: Final = asyncio.Event()
        self.behind = False  # True: other writers may have written after the view
        self.paused = False  # True: the store has not answered for long
        # The durable state is unknown: nothing is written until a restart.
        self.broken: BrokenError | None = None

    def add(self, command: Command) -> "asyncio.Future[Decision]":
        """Queue ``command``; return the future of its answer, set once the change is durable.

        A cancelled caller stops waiting; the change still happens.

        Raises, now or later:
            RefusedError, StaleError: as in ``decide``; nothing changed.
            UnavailableError: too many commands wait, the disk is full, the store does not answer,
                or the coordinator stops; nothing changed.
            UnsettledError: the change may have happened, or may still happen.
            BrokenError: the outcome is unknown until a restart.
        """
        self._require_open()
        if self.paused:
            raise _paused()
        if len(self.waiting) >= WAITING:
            self.counts.changes["unavailable"] += 1
            raise UnavailableError(
                f"the maximum of {WAITING} changes waits already", hint="try again later"
            )
        answer: asyncio.Future[Decision] = asyncio.get_running_loop().create_future()
        self.waiting.append(WaitingCommand(command, answer))
        self._wake()
        return answer

    def add_recovery(self, recovery: Recovery) -> "asyncio.Future[View]":
        """Return the answer to ``recovery``: the view of the recovered state, durable and sealed.

        Raises, now or later:
            RefusedError, UnavailableError: the coordinator stays in recovery mode, with nothing
            changed. BrokenError: the durable state is unknown until a restart.
        """
        self._require_open()
        answer: asyncio.Future[View] = asyncio.get_running_loop().create_future()
        self._recoveries.append(WaitingRecovery(recovery, answer))
        self._wake()
        return answer

    def record(self, activated: Activated) -> None:
        """Put an activation into the audit buffer, for a later commit.

        The type of the workload has neither ``MaxActivations`` nor ``Renewal``.

        Raises ``UnavailableError`` if the buffer is full or the engine stops: then the activation
        must not happen.
        """
        if self.stopping.is_set():
            raise _stopping()
        if self.unrecorded.add(activated, asyncio.get_running_loop().time()):
            self._wake()

    def request_follow(self) -> None:
        """Wake the engine to follow other writers of the store."""
        if not self.stopping.is_set():
            self.behind = True
            self._wake()

    def stop(self) -> None:
        """Accept nothing more. ``Engine.run`` ends after the waiting commands are answered."""
        self.stopping.set()
        self._wake()

    async def has_work(self) -> bool:
        """Wait for work; return False if there is none and the engine stops."""
        while not (self.waiting or self._recoveries or self._is_record_due()):
            if self.stopping.is_set():
                return len(self.unrecorded) > 0 and not self._recording
            if self.behind:
                return True
            await self._sleep()
        return True

    async def _sleep(self) -> None:
        """Wait until there may be work for the engine."""
        self._sleeping = asyncio.get_running_loop().create_future()
        due = None if self._recording else self.unrecorded.due_at()
        # The common case. A timer would cost time in each change.
        if due is None:
            await self._sleeping
            return
        with suppress(TimeoutError):
            async with asyncio.timeout_at(due):
                await self._sleeping

    def _wake(self) -> None:
        if self._sleeping is not None and not self._sleeping.done():
            self._sleeping.set_result(None)

    def pop_recovery(self) -> WaitingRecovery | None:
        """Remove and return the recovery that waits longest; None without a recovery."""
        return self._recoveries.popleft() if self._recoveries else None

    def pop_commands(self) -> list[WaitingCommand]:
        """Remove and return the next batch. A command that ``goes_alone`` is its own batch."""
        batch: list[WaitingCommand] = []
        while self.waiting and len(batch) < BATCH:
            if goes_alone(self.waiting[0].command):
                return batch or [self.waiting.popleft()]
            batch.append(self.waiting.popleft())
        if self.unrecorded and not self._recording and (batch or self._must_record()):
            self._recording = True
            batch.append(WaitingCommand(self.unrecorded.oldest(), None))
        return batch

    def pop_further(self, most: int, kinds: tuple[type, ...]) -> list[WaitingCommand]:
        """Remove and return up to ``most`` commands from the front, if they are of ``kinds``."""
        further: list[WaitingCommand] = []
        while len(further) < most and self.waiting and isinstance(self.waiting[0].command, kinds):
            further.append(self.waiting.popleft())
        return further

    def recorded(self, command: RecordActivations) -> None:
        """Remove the activations of ``command`` from the audit buffer: they are durable."""
        self._recording = False
        self.unrecorded.recorded(command, asyncio.get_running_loop().time())
        self._wake()

    def answer(self, view: View, accepted: Iterable[AcceptedCommand]) -> None:
        """Answer ``accepted``, whose changes are durable in ``view``."""
        for each in accepted:
            command, answer = each.waiting.command, each.waiting.answer
            if answer is not None and not answer.done():
                answer.set_result(Decision(view, each.before))
            elif answer is None and isinstance(command, RecordActivations):
                self.recorded(command)

    def put_back(self, batch: Iterable[WaitingCommand]) -> None:
        """Put the commands in ``batch`` back to the front of the queue.

        Their callers have no answer yet.
        """
        waiting: list[WaitingCommand] = []
        for each in batch:
            if each.answer is None:
                self._postpone()
            elif not each.answer.done():
                waiting.append(each)
        self.waiting.extendleft(reversed(waiting))
        self._wake()

    def fail(self, batch: Iterable[WaitingCommand], error: Exception) -> None:
        """Answer the callers of the commands ``batch`` with ``error``; count the failures."""
        for waiting in batch:
            self.counts.failed(error)
            if waiting.answer is None:
                self._postpone()
            elif not waiting.answer.done():
                waiting.answer.set_exception(error)

    def pause(self) -> None:
        """Refuse waiting and new commands until the attribute ``paused`` is False again."""
        self.paused = True
        self.fail(self.waiting, _paused())
        self.waiting.clear()

    def close(self) -> None:
        """Refuse waiting and new work: no caller may wait for an engine that does not run."""
        self.stopping.set()
        error = self.broken or _stopping()
        self.fail(self.waiting, error)
        self.waiting.clear()
        for each in self._recoveries:
            each.fail(error)
        self._recoveries.clear()

    def _require_open(self) -> None:
        if self.broken:
            raise self.broken
        if self.stopping.is_set():
            raise _stopping()

    def _must_record(self) -> bool:
        """Return whether the audit buffer must be written without a further change.

        True also while the engine stops.
        """
        return self._is_record_due() or self.stopping.is_set()

    def _is_record_due(self) -> bool:
        """Return whether activations in the audit buffer have to be written to the journal now."""
        buffer = self.unrecorded
        if self._recording or not buffer:
            return False
        return buffer.due(asyncio.get_running_loop().time())

    def _postpone(self) -> None:
        """Write the audit buffer later. If the engine stops, the activations are lost."""
        self._recording = False
        self.unrecorded.postpone(asyncio.get_running_loop().time())
        if self.stopping.is_set() and (lost := self.unrecorded.discard()):
            log.error("activations were not recorded", lost=lost)


def _stopping() -> UnavailableError:
    return UnavailableError("the coordinator is stopping", hint="try again later")


def _paused() -> UnavailableError:
    """Return the error for new changes while the outcome of an earlier write is unknown."""
    return UnavailableError("the store does not answer", hint="try again later")

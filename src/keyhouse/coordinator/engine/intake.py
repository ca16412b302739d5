"""What waits for the engine, with its callers: commands, recoveries, the audit buffer.

In the buffer are activations that have happened and are not in the journal yet. No caller waits for
them. They are committed together with the next change, or by themselves after a short delay. A
crash loses what is in the buffer. While the disk accepts no write, the buffer fills; when it is
full, activations are refused, because each one must be auditable.
"""

import asyncio
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from itertools import islice
from typing import Final

import msgspec

from keyhouse.base.errors import BrokenError, UnavailableError
from keyhouse.base.log import log
from keyhouse.coordinator.core.commands import Command, RecordActivations
from keyhouse.coordinator.core.events import Activated
from keyhouse.coordinator.engine.batch import Decision, Waiting, goes_alone
from keyhouse.coordinator.engine.counts import EngineCounts
from keyhouse.coordinator.engine.current import View
from keyhouse.coordinator.engine.recover import Recovery

DELAY: Final = 1.0
"""Longest wait of an activation for its record, in seconds, while the disk accepts writes."""

MANY: Final = 128
"""With this many activations in the buffer a record is written without further delay."""

TOGETHER: Final = 256
"""Activations in one record."""

MOST: Final = 10_000
"""Capacity of the buffer."""

WAITING: Final = 1024
"""Commands that may wait; one more is refused, to be retried."""

BATCH: Final = 256
"""Commands that share one append."""


class AuditBuffer:
    """A queue, oldest first. Times are those of the event loop, in seconds."""

    def __init__(self) -> None:
        self._waiting: deque[Activated] = deque()
        self._due = 0.0

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, activated: Activated, now: float) -> bool:
        """Add one; return whether the engine has to check again when the next record is due.

        Raises ``UnavailableError`` if the buffer is full.
        """
        if len(self._waiting) >= MOST:
            raise UnavailableError("activations cannot be recorded", hint="free space on the disk")
        if not self._waiting:
            self._due = now + DELAY
        self._waiting.append(activated)
        return len(self._waiting) in {1, MANY}

    def due(self, now: float) -> bool:
        """Tell whether a record has to be written even if there is no other change."""
        return bool(self._waiting) and (now >= self._due or len(self._waiting) >= MANY)

    def due_at(self) -> float | None:
        """Return when a record will be due; None while the buffer is empty."""
        return self._due if self._waiting else None

    def oldest(self) -> RecordActivations:
        """Return a record of the oldest ones. They stay in the buffer until ``recorded``."""
        return RecordActivations(tuple(islice(self._waiting, TOGETHER)))

    def recorded(self, record: RecordActivations, now: float) -> None:
        """Remove what ``record``, from ``oldest``, has made durable."""
        for _ in record.activations:
            self._waiting.popleft()
        self._due = now + DELAY

    def put_off(self, now: float) -> None:
        """Try again after the delay: the disk accepts no write now."""
        self._due = now + DELAY

    def give_up(self) -> int:
        """Empty the buffer; return how many activations are lost."""
        lost = len(self._waiting)
        self._waiting.clear()
        return lost


class WaitingRecovery(msgspec.Struct, frozen=True):
    """A recovery, and the caller that waits for it."""

    recovery: Recovery
    answer: "asyncio.Future[View]"

    def fail(self, error: Exception) -> None:
        """Answer with ``error``, unless the caller has gone."""
        if not self.answer.done():
            self.answer.set_exception(error)


class Intake:
    """Takes what callers ask for until the engine works on it, or stops."""

    def __init__(self, counts: EngineCounts) -> None:
        self._counts = counts
        self._waiting: deque[Waiting] = deque()
        self._recoveries: deque[WaitingRecovery] = deque()
        self._audit_buffer = AuditBuffer()
        self._sleeping: asyncio.Future[None] | None = None
        self.stopping: Final = asyncio.Event()
        self.behind = False  # whether others may have written what the view does not show
        self.paused = False  # whether the store has not answered for long
        self.broken: BrokenError | None = None

    @property
    def waiting(self) -> int:
        """How many commands wait for the next batch."""
        return len(self._waiting)

    @property
    def unrecorded(self) -> int:
        """How many activations are in the audit buffer."""
        return len(self._audit_buffer)

    def add(self, command: Command) -> "asyncio.Future[Decision]":
        """Return the answer to ``command``. Errors as for ``Engine.decision``."""
        self._require_open()
        if self.paused:
            raise _paused()
        if len(self._waiting) >= WAITING:
            self._counts.changes["unavailable"] += 1
            raise UnavailableError("too many changes are waiting", hint="try again later")
        answer: asyncio.Future[Decision] = asyncio.get_running_loop().create_future()
        self._waiting.append(Waiting(command, answer))
        self._wake()
        return answer

    def add_recovery(self, recovery: Recovery) -> "asyncio.Future[View]":
        """Return the answer to ``recovery``. Errors as for ``Engine.recover``."""
        self._require_open()
        answer: asyncio.Future[View] = asyncio.get_running_loop().create_future()
        self._recoveries.append(WaitingRecovery(recovery, answer))
        self._wake()
        return answer

    def record(self, activated: Activated) -> None:
        """Put an activation into the audit buffer. Raises ``UnavailableError``."""
        if self.stopping.is_set():
            raise _stopping()
        if self._audit_buffer.add(activated, asyncio.get_running_loop().time()):
            self._wake()

    def look(self) -> None:
        """Let the engine take over soon what other writers of the store may have written."""
        if not self.stopping.is_set():
            self.behind = True
            self._wake()

    def stop(self) -> None:
        """Take nothing more; what waits is still worked on."""
        self.stopping.set()
        self._wake()

    async def has_work(self) -> bool:
        """Wait for something to do; return False when there is nothing and the engine stops."""
        while not (self._waiting or self._recoveries or self._is_record_due()):
            if self.stopping.is_set():
                return len(self._audit_buffer) > 0
            if self.behind:
                return True
            await self._sleep()
        return True

    async def _sleep(self) -> None:
        """Return when there may be something to do."""
        self._sleeping = asyncio.get_running_loop().create_future()
        due = self._audit_buffer.due_at()
        if due is None:  # as mostly: each change would pay for a timer
            await self._sleeping
            return
        with suppress(TimeoutError):
            async with asyncio.timeout_at(due):
                await self._sleeping

    def _wake(self) -> None:
        if self._sleeping is not None and not self._sleeping.done():
            self._sleeping.set_result(None)

    def take_recovery(self) -> WaitingRecovery | None:
        """Take the recovery that waits longest; None if none does."""
        return self._recoveries.popleft() if self._recoveries else None

    def take(self) -> list[Waiting]:
        """Take the waiting commands, up to a batch; one that ``goes_alone`` is its own batch."""
        batch: list[Waiting] = []
        while self._waiting and len(batch) < BATCH:
            if goes_alone(self._waiting[0].command):
                return batch or [self._waiting.popleft()]
            batch.append(self._waiting.popleft())
        if self._audit_buffer and (batch or self._must_record()):
            batch.append(Waiting(self._audit_buffer.oldest(), None))
        return batch

    def recorded(self, command: RecordActivations) -> None:
        """Remove from the audit buffer what ``command`` has made durable."""
        self._audit_buffer.recorded(command, asyncio.get_running_loop().time())

    def fail(self, batch: Iterable[Waiting], error: Exception) -> None:
        """Answer ``batch`` with ``error``, and count that."""
        for waiting in batch:
            self._counts.failed(error)
            if waiting.answer is None:
                self._put_off()
            elif not waiting.answer.done():
                waiting.answer.set_exception(error)

    def pause(self) -> None:
        """Refuse what waits and what comes, as long as ``paused``."""
        self.paused = True
        self.fail(self._waiting, _paused())
        self._waiting.clear()

    def close(self) -> None:
        """Refuse what waits and what comes: no caller may wait for an engine that does not run."""
        self.stopping.set()
        error = self.broken or _stopping()
        self.fail(self._waiting, error)
        self._waiting.clear()
        for each in self._recoveries:
            each.fail(error)
        self._recoveries.clear()

    def _require_open(self) -> None:
        if self.broken:
            raise self.broken
        if self.stopping.is_set():
            raise _stopping()

    def _must_record(self) -> bool:
        """Tell whether the audit buffer has to be written even if there is no other change."""
        return self._is_record_due() or self.stopping.is_set()

    def _is_record_due(self) -> bool:
        """Tell whether the audit buffer has waited long enough."""
        buffer = self._audit_buffer
        return len(buffer) > 0 and buffer.due(asyncio.get_running_loop().time())

    def _put_off(self) -> None:
        """Write the audit buffer later; if the engine stops, its content is lost."""
        self._audit_buffer.put_off(asyncio.get_running_loop().time())
        if self.stopping.is_set() and (lost := self._audit_buffer.give_up()):
            log.error("activations were not recorded", lost=lost)


def _stopping() -> UnavailableError:
    return UnavailableError("the coordinator is stopping", hint="try again later")


def _paused() -> UnavailableError:
    """Return what callers are told while the outcome of a write before is not known."""
    return UnavailableError("the store does not answer", hint="try again later")

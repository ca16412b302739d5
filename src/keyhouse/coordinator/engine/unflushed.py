"""Publish changes after their flush, and answer their callers.

With several writers, an append returns before its records are durable, so the next writer can
continue (decision 0072). Until a flush covers the records, this module holds the new states in
their order. The engine decides further commands on the newest of these states. Readers see the
durable state only. So a refusal that depends on an undurable state also waits for the flush.

After a crash of the database, the undurable records may be gone. Then the engine returns to the
durable state and reads the store again. A change that the store still has is published as usual.
The engine decides all lost changes again: nobody has seen an effect.
"""

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from keyhouse.base.errors import UnsettledError
from keyhouse.base.log import log
from keyhouse.coordinator.core.events import Event
from keyhouse.coordinator.core.state import State
from keyhouse.coordinator.engine.current import Current
from keyhouse.coordinator.engine.work_queue import AcceptedCommand, WaitingCommand, WorkQueue
from keyhouse.coordinator.engine.writer import JournalWriter
from keyhouse.journal import OutcomeUnknownError, Position

REPORT_UNKNOWN_AFTER: Final = 10.0
"""Seconds after which the callers of a write learn that its outcome is unknown."""

_AT_ONCE: Final = 3
"""Flushes at a time. With a single flush, a change during a flush waits for two flushes.

The callers of a flush get their answers together, and send their next changes together. The first
of these changes begins the next flush. This flush misses all later changes.
"""

PATIENCE: Final = 0.05
"""Seconds after which followed changes are flushed even if nobody waits for them.

The flush of a later change with callers usually comes earlier, and covers them too. With three
replicas, a distant standby and 32 clients, the other flushes were half of all, and cost 6 % of the
uploads, measured.
"""

_FIRST_PAUSE: Final = 0.01
_LONGEST_PAUSE: Final = 0.5  # seconds


Refused = tuple[WaitingCommand, Exception]
"""A command without effect, and the reason."""


class Written(msgspec.Struct):
    """Changes of one append, or of one read of another writer's records.

    The changes may not be durable yet.
    """

    place: Position  # after the changes
    state: State
    events: Sequence[Event]
    accepted: list[AcceptedCommand]
    refused: list[Refused]  # decided on a state that was not durable
    began: float  # time of the event loop

    @property
    def callers(self) -> Iterable[WaitingCommand]:
        """Return the commands whose callers wait for these changes."""
        yield from (each.waiting for each in self.accepted)
        yield from (waiting for waiting, _ in self.refused)


class Unflushed:
    """The changes that may not be durable yet, oldest first."""

    def __init__(self, current: Current, writer: JournalWriter, queue: WorkQueue) -> None:
        self._current = current
        self._writer = writer
        self._queue = queue
        self.waiting: Final[deque[Written]] = deque()
        self._lost: list[Written] = []  # the store had these, and may not have them now
        self._flushing: set[asyncio.Task[None]] = set()
        self._added = 0  # the number of changes so far
        self._begun = 0  # the number of changes before the last begin of a flush
        self._wanted = 0  # the number of changes before the last change that somebody waits for
        self._hurries = False  # True: readers wait for the newest changes
        self._later: asyncio.TimerHandle | None = None
        self._reporting: asyncio.TimerHandle | None = None
        self._error: BaseException | None = None  # of the task that flushes
        self.failing = False  # True: the last flush failed
        self.overdue = False  # True: callers were told that the outcome is unknown

    @property
    def has_lost(self) -> bool:
        """Return True if a read of the store has to decide about lost changes."""
        return bool(self._lost)

    @property
    def callers(self) -> int:
        """Return the number of callers that wait for a flush."""
        return sum(len(each.accepted) for each in self.waiting)

    def add(self, written: Written) -> None:
        """Add the changes in ``written``, and begin to flush them to the store.

        If the write has already made the changes durable, publish them immediately.
        """
        self._current.state = written.state
        self.waiting.append(written)
        if self._writer.position == self._writer.written:
            self.confirm()
            return
        self._added += 1
        if written.accepted:
            self._want(_AT_ONCE)
        elif self._hurries:
            self._want(1)
        else:
            self._flush_later()
        self._report_at(written.began + REPORT_UNKNOWN_AFTER)

    def answer(self, accepted: list[AcceptedCommand]) -> None:
        """Answer the ``accepted`` commands, which change nothing.

        The answer waits until the state of their decision is durable.
        """
        if self.waiting:
            self.waiting[-1].accepted += accepted
            self._want(1)
        else:
            self._queue.answer(self._current.view, accepted)

    def refuse(self, refused: list[Refused]) -> None:
        """Answer the ``refused`` commands once the state of their decision is durable."""
        if self.waiting:
            self.waiting[-1].refused += refused
            self._want(1)
            return
        for waiting, error in refused:
            self._queue.fail([waiting], error)

    def hurry(self) -> None:
        """Flush followed changes without delay, until all are durable: a reader waits for them."""
        self._hurries = True
        self._want(1)

    def _want(self, most: int) -> None:
        """Flush all changes so far, with at most ``most`` flushes at a time."""
        self._wanted = self._added
        if self.waiting and self._begun < self._wanted and len(self._flushing) < most:
            task = asyncio.create_task(self._flush_all())
            self._flushing.add(task)
            task.add_done_callback(self._flushing.discard)

    def _flush_later(self) -> None:
        """Flush the oldest waiting change at the end of its ``PATIENCE``."""
        if self._later is None and self.waiting:
            due = self.waiting[0].began + PATIENCE
            self._later = asyncio.get_running_loop().call_at(due, self._flush_now)

    def _flush_now(self) -> None:
        """Flush if the patience of the oldest change has ended; else wait for its end."""
        self._later = None
        if self.waiting and asyncio.get_running_loop().time() >= self.waiting[0].began + PATIENCE:
            self._want(1)
        else:
            self._flush_later()

    async def flush(self) -> None:
        """Return after all changes read or written so far are durable and published.

        Raises ``OutcomeUnknownError``: read the store, and repeat this call.
        """
        await self._writer.present.flush()
        self.confirm()

    def confirm(self) -> None:
        """Publish the durable changes, and answer their callers."""
        durable = self._writer.position
        ready: list[Written] = []
        while self.waiting and _is_at_most(self.waiting[0].place, durable):
            ready.append(self.waiting.popleft())
        if not ready:
            return
        last, events = ready[-1], [event for each in ready for event in each.events]
        self._current.publish_durable(last.state, events, last.place)
        view, now = self._current.view, asyncio.get_running_loop().time()
        for each in ready:
            if each.accepted:
                self._queue.counts.committed(len(each.accepted), now - each.began)
            self._queue.answer(view, each.accepted)
            for waiting, error in each.refused:
                self._queue.fail([waiting], error)
        if not self.waiting and not self._lost:
            self.failing = self._hurries = False
            if self.overdue:
                self.overdue = self._queue.paused = False

    def returned(self) -> None:
        """Return to the durable state, because the store has lost later records."""
        self.confirm()
        self._lost += self.waiting
        self.waiting.clear()
        self._current.state = self._current.view.state
        self._current.publish_again()  # readers that wait for a lost place then read the end again
        log.warning(
            "the database has lost changes that were not acknowledged", appends=len(self._lost)
        )

    def decide_lost(self, *, is_connected: bool) -> list[AcceptedCommand]:
        """Return the commands of lost changes that the store has after all.

        Put all remaining commands back into the queue. With ``is_connected``, the journal has read
        all records since the durable state. Otherwise a new epoch has begun, and nothing shows
        whether the changes have happened. Their callers then receive ``UnsettledError``.
        """
        lost, self._lost = self._lost, []
        found: list[AcceptedCommand] = []
        for each in lost:
            if not is_connected:
                self._queue.fail((waiting.waiting for waiting in each.accepted), _lost_outcome())
                self._queue.put_back(waiting for waiting, _ in each.refused)
            elif self._writer.present.trail.at(each.place.sequence) == each.place:
                found += each.accepted
                self._queue.put_back(waiting for waiting, _ in each.refused)
            else:
                self._queue.put_back(each.callers)
        return found

    def close(self) -> None:
        """End the flush; callers learn that the outcome of their changes is unknown."""
        for task in self._flushing:
            task.cancel()
        for timer in (self._reporting, self._later):
            if timer is not None:
                timer.cancel()
        for each in (*self._lost, *self.waiting):
            self._queue.fail(each.callers, self._queue.broken or not_settled())
        self.waiting.clear()
        self._lost.clear()

    def require_sound(self) -> None:
        """Raise the error that has ended a flush in the background, if there is one."""
        if self._error is not None:
            raise self._error

    async def _flush_all(self) -> None:
        try:
            await self._flush_repeatedly()
        except Exception as error:  # noqa: BLE001 - the engine raises the error
            self._error = error
            self._queue.request_follow()

    async def _flush_repeatedly(self) -> None:
        """Flush until all wanted changes are durable. A flush covers the changes before its begin.

        A change is wanted if a caller or reader waits for it, or at the end of its ``PATIENCE``.
        """
        pause = _FIRST_PAUSE
        while self.waiting and self._begun < self._wanted:
            self._begun = self._added
            try:
                await self.flush()
            except OutcomeUnknownError:
                self.failing = True
                self._begun = 0
                self._queue.request_follow()  # the engine then reads the store
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
            else:
                pause = _FIRST_PAUSE

    def _report_at(self, time: float) -> None:
        """Report at ``time`` of the event loop, unless an earlier report is scheduled."""
        if self._reporting is None:
            self._reporting = asyncio.get_running_loop().call_at(time, self._report)

    def _report(self) -> None:
        """Report an unknown outcome to the callers of overdue changes."""
        self._reporting = None
        waiting = (*self._lost, *self.waiting)
        if not waiting:
            return
        # A time, not a difference: a rounded difference can be too small to move the clock.
        now, due = asyncio.get_running_loop().time(), waiting[0].began + REPORT_UNKNOWN_AFTER
        if now < due:
            self._report_at(due)
            return
        for each in waiting:
            callers = (one for one in each.callers if one.answer is not None)
            self._queue.fail(callers, not_settled())
        self.overdue = True
        self._queue.pause()
        self._report_at(now + REPORT_UNKNOWN_AFTER)


def _is_at_most(place: Position, durable: Position | None) -> bool:
    return durable is not None and place.sequence <= durable.sequence


def not_settled() -> UnsettledError:
    """Return the error for callers of a write with an unknown outcome."""
    return UnsettledError(
        "the store does not answer: it is not known whether the change has happened",
        hint="read the state before you repeat the change: the change may still happen",
    )


def _lost_outcome() -> UnsettledError:
    return UnsettledError(
        "the database was restarted: it is not known whether the change has happened",
        hint="read the state before you repeat the change",
    )

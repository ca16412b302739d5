"""A store that several replicas reach over a network, and what networks and servers do to it.

``Database`` is what is stored; each replica has a ``SimulatedStore``, its connection. Nothing takes
time: a call that is held waits until a test lets it pass.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from enum import Enum, auto
from typing import NamedTuple

from keyhouse.journal import OutcomeUnknownError, StoreConflictError, StoreUnreadableError
from keyhouse.journal.store.protocol import (
    NOTHING,
    Batch,
    Beside,
    EpochStart,
    Flush,
    Note,
    Position,
    Sealed,
    follow,
)

__all__ = ["Database", "Fault", "Peek", "SimulatedStore"]

_BATCH = 50
_PIECE = 10  # turns of the event loop that a piece of a base takes


class Fault(Enum):
    """What happens to a connection's next write."""

    CONFLICT = auto()  # refused although nobody was first: another fenced
    LOST_REQUEST = auto()  # it never arrives, and the writer does not know
    LOST_ANSWER = auto()  # it is committed, and the writer does not know
    LATE = auto()  # it is committed later, unless that is prevented


class Stored(NamedTuple):
    """The content at one moment."""

    start: EpochStart | None = None
    records: tuple[Sealed, ...] = ()
    head: Position | None = None


class Database:
    """The content, and how it came about."""

    def __init__(self, history: Iterable[Stored] = (), notes: Iterable[Note] = ()) -> None:
        self.history = list(history) or [Stored()]
        self.durable = len(self.history)  # so many of the history survive a crash
        self.starts = 0  # how often the server was started again, or another one promoted
        self.notes = list(notes)
        self.lock = asyncio.Lock()
        self.owner: SimulatedStore | None = None
        self.connections: list[SimulatedStore] = []

    @property
    def stored(self) -> Stored:
        """What is there now."""
        return self.history[-1]

    def commit(self, write: "Sent", *, early: bool = False) -> None:
        """Take ``write`` if the content ends where it expects that; make it durable if not early.

        The log of the server is one line, so all before it is durable then, too.
        """
        at = self.stored
        if at.head != write.expected:
            raise StoreConflictError("simulated: another was first")
        start, before = (at.start, at.records) if write.start is None else (write.start, ())
        self.history.append(Stored(start, (*before, *write.records), write.head))
        kinds = {note.kind for note in write.notes}
        self.notes = [note for note in self.notes if note.kind not in kinds] + list(write.notes)
        if not early:
            self.flush()
        for connection in self.connections:
            connection.notify()

    def flush(self, commits: int | None = None) -> None:
        """Make the first ``commits`` of the history durable, or all."""
        durable = len(self.history) if commits is None else commits
        self.durable = max(self.durable, durable)

    def crash(self, survive: int) -> None:
        """Start again, or promote a standby: ``survive`` of the commits that are not durable stay.

        These are the first of them. What is there afterwards is durable.
        """
        del self.history[self.durable + survive :]
        self._started_again()

    def lose_tail(self, commits: int) -> None:
        """Fail over to a standby that lacks the last ``commits``."""
        del self.history[max(len(self.history) - commits, 2) :]
        self._started_again()

    def _started_again(self) -> None:
        self.durable = len(self.history)
        self.starts += 1


class Sent(NamedTuple):
    """A write as the database receives it."""

    expected: Position | None
    start: EpochStart | None
    records: tuple[Sealed, ...]
    head: Position
    notes: tuple[Note, ...] = ()


class SimulatedStore:
    """One replica's connection. ``nonces``: of all that was ever handed over."""

    is_whole = True

    def __init__(self, database: Database, nonces: list[bytes] | None = None) -> None:
        self.database = database
        self.nonces = [] if nonces is None else nonces
        self.faults: deque[Fault] = deque()
        self.late: list[Sent] = []
        self.late_win = False  # whether what is late is decided in its favour by ``settle``
        self.down = False
        self.breaks = False  # whether it is down after its next write
        self.deaf = False  # hears nothing of what others write
        self.frozen: Stored | None = None  # what it is shown instead of the truth
        self.looks = 0  # how often it was asked for the head
        self._passing = asyncio.Event()
        self._passing.set()
        self._answering = asyncio.Event()
        self._answering.set()
        self._flushing = asyncio.Event()
        self._flushing.set()
        self._changed: Callable[[], None] = lambda: None
        database.connections.append(self)

    # --- what a test does to it ---

    def hold(self) -> None:
        """Delay writes until ``let_pass``."""
        self._passing.clear()

    def let_pass(self) -> None:
        """Let writes, answers and flushes pass that were held."""
        self._passing.set()
        self._answering.set()
        self._flushing.set()

    def hold_flushes(self) -> None:
        """Delay flushes until ``let_pass``."""
        self._flushing.clear()

    @property
    def holds_flushes(self) -> bool:
        """Whether flushes are delayed."""
        return not self._flushing.is_set()

    def hold_looks(self) -> None:
        """Delay the answers to looks at the head until ``let_pass``; they are old by then."""
        self._answering.clear()

    def arrive_late(self) -> None:
        """Commit what was late, where that is still possible."""
        late, self.late = self.late, []
        for sent in late:
            if self.database.stored.head == sent.expected:
                self.database.commit(sent)

    def fork(self) -> None:
        """Lead this replica to a copy, which from then on has a history of its own."""
        self._move(Database(self.database.history, self.database.notes))

    def heal(self, database: Database) -> None:
        """Lead it to ``database`` again, and show what is there."""
        self.down, self.breaks, self.deaf, self.frozen = False, False, False, None
        self.let_pass()
        if self.database is not database:
            self._move(database)

    def notify(self) -> None:
        """Say that there may be something new."""
        if not self.deaf:
            self._changed()

    def _move(self, database: Database) -> None:
        self.database.connections.remove(self)
        self.late.clear()
        self.database = database
        database.connections.append(self)

    # --- the protocol of stores ---

    async def append(self, expected: Position, records: Sequence[Sealed], head: Position) -> None:
        await self._write(Sent(expected, None, tuple(records), head))

    async def append_early(
        self, expected: Position, records: Sequence[Sealed], head: Position
    ) -> Flush | None:
        flush = self._flush()
        await self._write(Sent(expected, None, tuple(records), head), early=True)
        return flush

    async def read(self, after_seq: int) -> Batch:
        flush = self._flush()
        await self._ask()
        start, records, head = self.frozen or self.database.stored
        behind = [record for record in records if record.sequence > after_seq]
        durable = self.frozen is None and self.database.durable == len(self.database.history)
        return Batch(start, tuple(behind[:_BATCH]), head, None if durable else flush)

    async def head(self) -> Position | None:
        self.looks += 1
        await self._ask()
        head = (self.frozen or self.database.stored).head
        await self._answering.wait()
        return head

    async def begin_epoch(
        self,
        expected: Position | None,
        start: EpochStart,
        records: Iterable[Sealed],
        beside: Beside = NOTHING,
        /,
    ) -> None:
        base, head = [], start.before
        for record in records:
            base.append(record)
            head = follow(head, record)
            for _ in range(_PIECE):  # others write meanwhile
                await asyncio.sleep(0)
        await self._write(Sent(expected, start, tuple(base), head, beside.notes))

    async def settle(self) -> Position | None:
        await self._ask()
        if self.late_win:
            self.arrive_late()
        self.late.clear()
        if self.frozen is None:
            self.database.flush()  # the fence is a commit
        return (self.frozen or self.database.stored).head

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        database = self.database
        await database.lock.acquire()
        database.owner = self
        try:
            yield
        finally:
            self._end_turn(database)

    def watch(self, changed: Callable[[], None]) -> None:
        self._changed = changed

    async def notes(self, kind: str, names: Sequence[bytes] | None = None) -> tuple[Note, ...]:
        await self._ask()
        found = (note for note in reversed(self.database.notes) if note.kind == kind)
        return tuple(note for note in found if names is None or note.name in names)

    async def put_note(self, note: Note) -> None:
        await self._ask()
        others = [each for each in self.database.notes if not _is_same(each, note)]
        self.database.notes = [*others, note]

    async def close(self) -> None:
        self._changed = lambda: None
        if self in self.database.connections:
            self.database.connections.remove(self)

    async def _ask(self) -> None:
        await asyncio.sleep(0)
        if self.down:
            raise StoreUnreadableError("simulated: no connection")

    def _flush(self) -> Flush:
        """Return the flush of what the database has when this is called, and soon after."""
        database, starts = self.database, self.database.starts

        async def flush() -> None:
            commits = len(database.history)  # what comes later may come behind the flush's commit
            await asyncio.sleep(0)
            await self._flushing.wait()
            if self.down or self.frozen is not None or self.database is not database:
                raise OutcomeUnknownError("simulated: no connection")
            if database.starts != starts:
                raise OutcomeUnknownError("simulated: started again")
            database.flush(commits)

        return flush

    async def _write(self, sent: Sent, *, early: bool = False) -> None:
        self.nonces += [record.nonce for record in sent.records]
        await asyncio.sleep(0)
        if not self._passing.is_set():
            self._end_turn(self.database)  # the database ends a turn in which nothing comes
            await self._passing.wait()
        database = self.database
        if database.owner is not self:
            await database.lock.acquire()
            database.owner = self
        try:
            self._decide(sent, early=early)
        finally:
            self._end_turn(database)

    def _end_turn(self, database: Database) -> None:
        if database.owner is self:
            database.owner = None
            database.lock.release()

    def _decide(self, sent: Sent, *, early: bool) -> None:
        fault = self.faults.popleft() if self.faults else None
        was_down, self.down = self.down, self.down or self.breaks
        if was_down or fault is Fault.LOST_REQUEST:
            raise OutcomeUnknownError("simulated: no connection")
        if self.frozen is not None or fault is Fault.CONFLICT:
            raise StoreConflictError("simulated: refused")
        if fault is Fault.LATE:
            self.late.append(sent)
            raise OutcomeUnknownError("simulated: no answer")
        self.database.commit(sent, early=early)
        if fault is Fault.LOST_ANSWER:
            raise OutcomeUnknownError("simulated: no answer")


class Peek(SimulatedStore):
    """A look at the content that changes nothing, not even what is durable."""

    async def read(self, after_seq: int) -> Batch:
        found = await super().read(after_seq)
        return Batch(found.start, found.records, found.head)


def _is_same(one: Note, other: Note) -> bool:
    return (one.kind, one.name) == (other.kind, other.name)

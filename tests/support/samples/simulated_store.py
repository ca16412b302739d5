"""A simulated store of several replicas, with failures of networks and servers.

``Database`` is the stored content. Each replica has a ``SimulatedStore``, its connection. Calls
take no time: a held call waits until a test releases it.
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
_PIECE = 10  # turns of the event loop for each record of a base


class Fault(Enum):
    """Faults of a connection's next write."""

    CONFLICT = auto()  # refused without an earlier writer, as by a fence of another writer
    LOST_REQUEST = auto()  # the write never arrives; the writer does not know this
    LOST_ANSWER = auto()  # the write is committed; the writer does not know this
    LATE = auto()  # the write is committed later, unless a later commit or fence prevents this


class Stored(NamedTuple):
    """The content at a moment."""

    start: EpochStart | None = None
    records: tuple[Sealed, ...] = ()
    head: Position | None = None


class Database:
    """The content and its history."""

    def __init__(self, history: Iterable[Stored] = (), notes: Iterable[Note] = ()) -> None:
        self.history = list(history) or [Stored()]
        self.durable = len(self.history)  # the number of history entries that survive a crash
        self.starts = 0  # number of restarts and promotions
        self.notes = list(notes)
        self.lock = asyncio.Lock()
        self.owner: SimulatedStore | None = None
        self.connections: list[SimulatedStore] = []

    @property
    def stored(self) -> Stored:
        """The present content."""
        return self.history[-1]

    def commit(self, write: "Sent", *, early: bool = False) -> None:
        """Apply ``write`` if the head is the expected head; ``early``: not yet durable.

        The server's log is sequential, so a durable commit makes all earlier commits durable.
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
        """Make the first ``commits`` entries of the history durable; None: all entries."""
        durable = len(self.history) if commits is None else commits
        self.durable = max(self.durable, durable)

    def crash(self, survive: int) -> None:
        """Restart, or promote a standby. The first ``survive`` undurable commits remain.

        All remaining commits are durable afterwards.
        """
        del self.history[self.durable + survive :]
        self._started_again()

    def lose_tail(self, commits: int) -> None:
        """Fail over to a standby without the last ``commits``."""
        del self.history[max(len(self.history) - commits, 2) :]
        self._started_again()

    def _started_again(self) -> None:
        self.durable = len(self.history)
        self.starts += 1


class Sent(NamedTuple):
    """A write as received by the database."""

    expected: Position | None
    start: EpochStart | None
    records: tuple[Sealed, ...]
    head: Position
    notes: tuple[Note, ...] = ()


class SimulatedStore:
    """A replica's connection. ``nonces`` collects the nonces of all records ever sent."""

    is_whole = True

    def __init__(self, database: Database, nonces: list[bytes] | None = None) -> None:
        self.database = database
        self.nonces = [] if nonces is None else nonces
        self.faults: deque[Fault] = deque()
        self.late: list[Sent] = []
        self.late_win = False  # whether ``settle`` commits late writes
        self.down = False
        self.breaks = False  # whether the connection fails after its next write
        self.deaf = False  # receives no notifications of other replicas' writes
        self.frozen: Stored | None = None  # content shown in place of the present content
        self.looks = 0  # number of requests for the head
        self._passing = asyncio.Event()
        self._passing.set()
        self._answering = asyncio.Event()
        self._answering.set()
        self._flushing = asyncio.Event()
        self._flushing.set()
        self._changed: Callable[[], None] = lambda: None
        database.connections.append(self)

    # --- actions of tests ---

    def hold(self) -> None:
        """Delay writes until ``let_pass``."""
        self._passing.clear()

    def let_pass(self) -> None:
        """Release all held writes, answers and flushes."""
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
        """Delay answers to reads of the head until ``let_pass``; they are old by then."""
        self._answering.clear()

    def arrive_late(self) -> None:
        """Commit late writes if the head permits this."""
        late, self.late = self.late, []
        for sent in late:
            if self.database.stored.head == sent.expected:
                self.database.commit(sent)

    def fork(self) -> None:
        """Connect this replica to a copy with a separate history."""
        self._move(Database(self.database.history, self.database.notes))

    def heal(self, database: Database) -> None:
        """Connect the replica to ``database`` again, and show the present content."""
        self.down, self.breaks, self.deaf, self.frozen = False, False, False, None
        self.let_pass()
        if self.database is not database:
            self._move(database)

    def notify(self) -> None:
        """Announce possible new content."""
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
            for _ in range(_PIECE):  # other replicas write meanwhile
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
        """Return a flush of the content at this call; commits soon after may be included."""
        database, starts = self.database, self.database.starts

        async def flush() -> None:
            commits = len(database.history)  # later commits may follow the flush's commit
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
            self._end_turn(self.database)  # the database ends a turn without a write
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
    """Reads the content without any effect, even on durability."""

    async def read(self, after_seq: int) -> Batch:
        found = await super().read(after_seq)
        return Batch(found.start, found.records, found.head)


def _is_same(one: Note, other: Note) -> bool:
    return (one.kind, one.name) == (other.kind, other.name)

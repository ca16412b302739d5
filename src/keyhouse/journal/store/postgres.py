"""Store the journal in a PostgreSQL schema, shared by several writers.

Every write compares the end of the store: the head row of the store has epoch, sequence, chain
value and fence. An append is one statement: it moves the head row from the expected place and
inserts the records, or it does nothing. So of two writers at the same place one succeeds, and the
second reports a conflict.

The fence is a number in the head row. Each new writing connection raises the fence, and every write
names the fence of its connection. A statement from an older connection may arrive late, after this
writer has determined its outcome. The statement then names an old fence and does nothing. So the
end of the store, read on a new connection, is the outcome of all earlier writes of this writer.

An early append commits without a flush, so the head row is free for the next writer at once. A
flush is a later commit on a connection of its own (``Flushes``).

The decisions 0034, 0037, 0059 and 0072 have the reasons.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

from keyhouse.base.log import log
from keyhouse.base.secret import Secret
from keyhouse.journal.store.postgres_connection import (
    ConnectionDroppedError,
    PostgresConnection,
    connect,
    outcome_unknown,
    require_standbys,
    unreadable,
)
from keyhouse.journal.store.postgres_flushes import Flushes, flush_on, unproven
from keyhouse.journal.store.postgres_statements import (
    APPEND,
    CHANNEL,
    CONFIRMED_HEAD,
    FENCE,
    FENCE_COLUMN,
    HEAD,
    HEAD_COLUMNS,
    IS_WHOLE,
    READ,
    READ_COLUMNS,
    READ_IN_TURN,
    batch_of,
    columns_of,
    head_of,
    replace_epoch,
    require_done,
)
from keyhouse.journal.store.postgres_turns import Turns
from keyhouse.journal.store.protocol import (
    NOTHING,
    Batch,
    Beside,
    EpochStart,
    Flush,
    Position,
    Sealed,
    StoreConflictError,
    StoreDamagedError,
    StoreUnreadableError,
    SupersededError,
)

_EVERY = 1.0  # seconds between two calls of a watcher


class PostgresStore:
    """Access the store ``store_id`` in a database, for one of several writers.

    The store has two connections, so that no read waits for a commit. Each connection begins with a
    commit. With a synchronous standby, this commit waits until the standby has everything visible.
    So later reads return only data that both servers have. The exception is a commit that an
    administrator cancels while it waits (decision 0037).

    The writing connection then raises the fence of the head row, in another commit. The reading
    connection locks nothing. Both connections lead to the same server: a newer connection to a
    different server drops the older connection. A third connection holds the turns, once another
    writer exists. Up to three more connections flush, once an append was early.
    """

    def __init__(self, url: Secret, store_id: bytes) -> None:
        """Store the arguments. Callers use ``open`` instead."""
        self._url = url
        self._id = store_id
        self._writer: PostgresConnection | None = None
        self._reader: PostgresConnection | None = None
        self._writing, self._reading = asyncio.Lock(), asyncio.Lock()
        self._changed: Callable[[], None] = lambda: None
        self._ticking: asyncio.TimerHandle | None = None
        self._closed = False
        self._checked = 0.0
        self.is_whole = True
        self._turns = Turns(url, READ_IN_TURN, READ_COLUMNS)
        self._read_to = 0  # sequence of the newest known record
        self._wrote_on: PostgresConnection | None = None  # connection of the last write
        # End of the store at the rise of the fence. Serves a single ``settle``.
        self._fenced: tuple[Position | None] | None = None
        self._read_on: PostgresConnection | None = None  # connection of the last read
        self._renewing: set[asyncio.Task[None]] = set()
        self._flushes = Flushes(partial(self._connected, _nothing), self._renew)
        self._turn_flush: Flush = unproven  # of the records that a turn's statement reads
        self._in_turn = False  # True: the next write ignores turns of other writers

    @classmethod
    async def open(cls, url: Secret, store_id: bytes) -> "PostgresStore":
        """Return the store in the database at ``url``. The database must have the schema.

        Raises ``StoreUnreadableError`` or ``StoreDamagedError``.
        """
        store = cls(url, store_id)
        try:
            await store.head()
        except BaseException:
            await store.close()
            raise
        return store

    async def append(self, expected: Position, records: Sequence[Sealed], head: Position) -> None:
        """Append ``records`` after ``expected``.

        Any failure except ``StoreConflictError`` makes the outcome unknown.
        """
        await self._append(expected, records, head, early=False)

    async def append_early(
        self, expected: Position, records: Sequence[Sealed], head: Position
    ) -> Flush:
        """Append ``records`` before they are durable; return the function that flushes them."""
        flush = await self._flushes.prepared()
        await self._append(expected, records, head, early=True)
        return flush

    async def _append(
        self, expected: Position, records: Sequence[Sealed], head: Position, *, early: bool
    ) -> None:
        place = (head.sequence, head.chain, expected.epoch, expected.sequence, expected.chain)
        async with self._writing:
            connection = await self._for_writing()
            # The lock of this writer's last turn would refuse this write.
            if not self._in_turn:
                await self._turns.ended()
            if self._in_turn:
                self._turns.writing()
            self._wrote_on = connection
            with outcome_unknown():
                rows = (*columns_of(records), *place, connection.fence, self._in_turn, early)
                done = await connection.execute(APPEND, self._id, *rows)
                if records and done == "INSERT 0 0":
                    raise _conflict()  # the next ``read`` learns the fence
                require_done(connection, done, f"INSERT 0 {len(records)}")
        self._read_to = head.sequence

    async def read(self, after_seq: int) -> Batch:
        """Return up to 1,000 records, or about 4 MiB, after ``after_seq``."""
        batch = self._read_in_turn(after_seq)
        if batch is None:
            async with self._asking() as connection:
                flush = self._flushes.ready() or partial(self._flush_by_reader, connection)
                rows = await connection.fetch(READ, self._id, after_seq, columns=READ_COLUMNS)
                self._raise_known_fence(rows)
                batch = batch_of(self._id, rows, flush)
                if batch.head is not None and not batch.records and not self._in_turn:
                    await self._check_tail(connection)
        self._read_to = batch.records[-1].sequence if batch.records else after_seq
        return batch

    def _read_in_turn(self, after_seq: int) -> Batch | None:
        """Return the records after ``after_seq`` from the statement that began the turn.

        None: there was no such statement, or its records do not follow ``after_seq``. After a later
        read, this batch would look like a rollback.
        """
        rows = self._turns.pop_rows() or []
        self._raise_known_fence(rows)
        batch = batch_of(self._id, rows, self._turn_flush)
        if batch.start is None or batch.head is None:
            return None
        end = batch.head.sequence
        first = batch.records[0].sequence if batch.records else end + 1
        last = batch.records[-1].sequence if batch.records else end
        if not first - 1 <= after_seq <= last or (after_seq == last != end):
            return None
        later = tuple(each for each in batch.records if each.sequence > after_seq)
        return Batch(batch.start, later, batch.head, batch.flush)

    async def head(self) -> Position | None:
        """Return the place of the last record; None if the store is empty.

        Where commits wait for standbys, this call waits too. So a primary whose standby was
        promoted does not answer. Without the wait, such a primary could return an old end for as
        long as it runs.
        """
        async with self._asking() as connection:
            look = CONFIRMED_HEAD if connection.standbys else HEAD
            rows = await connection.fetch(look, self._id, columns=HEAD_COLUMNS)
        return self._head(connection, rows)[0] if rows else None

    async def begin_epoch(
        self,
        expected: Position | None,
        start: EpochStart,
        records: Iterable[Sealed],
        beside: Beside = NOTHING,
        /,
    ) -> None:
        """Replace all records by ``records``, consumed in threads while the head row is locked.

        The bytes of older records stay in dead rows, in the write-ahead log and on standbys until
        PostgreSQL removes them.
        """
        self._turns.pop_rows()
        async with self._writing:
            connection = await self._for_writing()
            self._wrote_on = connection
            with outcome_unknown():
                if await self._lock_head(connection) != expected:
                    await connection.execute("ROLLBACK")
                    raise _conflict()
                try:
                    place = await replace_epoch(connection, self._id, start, beside, iter(records))
                except ConnectionDroppedError:
                    raise
                except BaseException:
                    connection.drop()  # The server rolls back.
                    raise
                require_done(connection, await connection.execute("COMMIT"), "COMMIT")
        self.is_whole, self._read_to = True, place.sequence

    async def settle(self) -> Position | None:
        """Make sure that no earlier write takes effect any more; return the end of the store.

        A connection newer than the last write has raised the fence, a number in the head row. Each
        statement of an older connection names a lower fence, and does nothing. The caller compares
        the returned place with its last write.
        """
        self._turns.pop_rows()  # rows from before the write
        async with self._writing:
            if self._writer is not None and self._writer is self._wrote_on:
                self._writer.drop()
            connection = await self._for_writing()
            fenced, self._fenced = self._fenced, None
            if fenced is not None:
                return fenced[0]
            with unreadable():
                return self._head(
                    connection, await connection.fetch(HEAD, self._id, columns=HEAD_COLUMNS)
                )[0]

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Return a context in which other writers of this version wait (see ``Turns``)."""
        flush, self._turn_flush = self._flushes.ready(self._turns.server), unproven
        server = self._turns.server
        self._in_turn = await self._turns.begin(self._id, self._read_to)
        if flush is not None and server == self._turns.server:
            self._turn_flush = flush
        try:
            yield
        finally:
            self._in_turn = False
            self._turns.end()

    def watch(self, changed: Callable[[], None]) -> None:
        """Call ``changed`` after a notification from another writer, and every second."""
        self._changed = changed
        if self._ticking is None:
            self._tick_later()

    async def close(self) -> None:
        """Close the connections to the database."""
        self._closed = True
        if self._ticking is not None:
            self._ticking.cancel()
        for task in [*self._renewing]:
            task.cancel()
            await asyncio.wait([task])
        await self._turns.close()
        for connection in (self._writer, self._reader, *self._flushes.connections):
            if connection is not None:
                await connection.close()

    async def _flush_by_reader(self, connection: PostgresConnection) -> None:
        """Make the records durable that ``connection`` has read, by a commit on ``connection``.

        Use this if no connection for flushes is older than the read.
        """
        if self._ticking is not None:
            self._flushes.open_later()
        with outcome_unknown():
            async with self._reading:
                await flush_on(connection)

    async def _check_tail(self, connection: PostgresConnection) -> None:
        """Check that the newest records exist, at most once a second.

        A coordinator does not read records again that it has already read. So it would append after
        a gap, and no later start could read past the gap.
        """
        now = asyncio.get_running_loop().time()
        if not self.is_whole or now < self._checked + _EVERY:
            return
        self._checked = now
        rows = await connection.fetch(IS_WHOLE, self._id, columns=1)
        self.is_whole = rows != [(False,)]
        if not self.is_whole:
            log.error("records are missing in the database: a new epoch replaces all of them")

    def _tick_later(self) -> None:
        self._ticking = asyncio.get_running_loop().call_later(_EVERY, self._tick)

    def _tick(self) -> None:
        self._tick_later()
        self._changed()

    def _on_notification(self, pid: int) -> None:
        if self._writer is None or pid != self._writer.server_pid:
            self._changed()

    async def _for_writing(self) -> PostgresConnection:
        if self._writer is None or self._writer.closed:
            self._writer = await self._connected(self._raise_fence)
        return self._writer

    async def _for_reading(self) -> PostgresConnection:
        if self._reader is None or self._reader.closed:
            self._reader = await self._connected(self._listen)
        return self._reader

    @asynccontextmanager
    async def _asking(self) -> AsyncIterator[PostgresConnection]:
        async with self._reading:
            with unreadable():
                self._read_on = await self._for_reading()
                yield self._read_on

    def _lost(self, connection: PostgresConnection) -> None:
        """Renew ``connection`` at once, if it was lost while unused.

        A server that ends connections usually ends all of them. Many changes first read the end of
        the store on one connection, and then write on another connection. So they would wait for
        two new connections in turn. A connection that was never used is not renewed: the server
        might end each new connection.
        """
        if self._closed:
            return
        if connection is self._writer is self._wrote_on and not self._writing.locked():
            self._renew(self._writing, self._for_writing)
        elif connection is self._reader is self._read_on and not self._reading.locked():
            self._renew(self._reading, self._for_reading)
        else:
            self._flushes.lost(connection)

    def _renew(
        self, lock: asyncio.Lock, connect_again: Callable[[], Awaitable[PostgresConnection]]
    ) -> None:
        async def renew() -> None:
            with suppress(StoreUnreadableError, StoreDamagedError, SupersededError):
                async with lock:
                    await connect_again()

        task = asyncio.create_task(renew())
        self._renewing.add(task)
        task.add_done_callback(self._renewing.discard)

    async def _listen(self, connection: PostgresConnection) -> None:
        await connection.listen(CHANNEL, self._on_notification)

    async def _connected(
        self, begin: Callable[[PostgresConnection], Awaitable[None]]
    ) -> PostgresConnection:
        """Return a new connection after ``begin`` has run on it."""
        if self._closed:
            raise StoreUnreadableError("the store was closed")
        connection = await connect(self._url)
        try:
            with unreadable():
                await begin(connection)
        except BaseException:
            connection.drop()
            raise
        # If the servers differ, the server of the older connection is out of date.
        for other in (self._writer, self._reader, *self._flushes.connections):
            if other is not None and other.server != connection.server:
                other.drop()
        self._turns.stay_at(connection.server)
        connection.when_lost(partial(self._lost, connection))
        return connection

    async def _raise_fence(self, connection: PostgresConnection) -> None:
        rows = await connection.fetch(FENCE, self._id, columns=HEAD_COLUMNS)
        position, connection.fence = self._head(connection, rows)
        self._fenced = (position,)

    def _raise_known_fence(self, rows: list[tuple[Any, ...]]) -> None:
        """Learn the fence from ``rows``, a read of the store: another writer may have raised it.

        Statements of earlier connections name a lower fence than the fence of this connection. A
        row from before the last rise has a lower fence, too, so the maximum counts.
        """
        if self._writer is not None and rows and isinstance(rows[0][FENCE_COLUMN], int):
            self._writer.fence = max(self._writer.fence, rows[0][FENCE_COLUMN])

    async def _lock_head(self, connection: PostgresConnection) -> Position | None:
        """Lock the head row until the transaction ends; return the place of the last record."""
        await connection.execute("BEGIN")
        rows = await connection.fetch(HEAD + " FOR UPDATE", self._id, columns=HEAD_COLUMNS)
        head, connection.fence = self._head(connection, rows)
        return head

    def _head(
        self, connection: PostgresConnection, rows: list[tuple[Any, ...]]
    ) -> tuple[Position | None, int]:
        """Return the place of the last record, and the fence, from ``rows``: the head row.

        Raises ``SupersededError`` if the store has ended. If commits now wait for too few standbys,
        this raises ``StoreUnreadableError`` and drops the writing connection. The next write then
        needs a new connection, and ``connect`` refuses it.
        """
        position, fence, standbys = head_of(rows)
        try:
            require_standbys(connection.standbys, standbys)
        except StoreUnreadableError:
            if self._writer is not None:
                self._writer.drop()
            raise
        return position, fence


def _conflict() -> StoreConflictError:
    return StoreConflictError("another coordinator appended to the journal in the database")


async def _nothing(_connection: PostgresConnection) -> None:
    """Do nothing: this connection needs no preparation after it is made."""

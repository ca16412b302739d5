"""The shared store: a schema in PostgreSQL, for several writers."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

from keyhouse.base.log import log
from keyhouse.base.secret import Secret
from keyhouse.journal.store.postgres_connection import (
    Connection,
    ConnectionDroppedError,
    connect,
    outcome_unknown,
    require_standbys,
    unreadable,
)
from keyhouse.journal.store.postgres_turns import KEY, LOCK, Turns
from keyhouse.journal.store.protocol import (
    CHAIN_SIZE,
    NOTHING,
    Batch,
    Beside,
    EpochStart,
    Position,
    Sealed,
    StoreConflictError,
    StoreDamagedError,
    StoreUnreadableError,
    SupersededError,
    follow,
)

_PIECE_RECORDS = 1000
_PIECE_BYTES = 1024 * 1024
_EVERY = 1.0  # seconds between two looks of a watcher
_CHANNEL = "keyhouse"
_ONE_ROW = "INSERT 0 1"

_FENCE = """
INSERT INTO keyhouse.head AS h (store_id, epoch, sequence, chain, fence, ended)
VALUES ($1, 0, 0, '', 0, '')
ON CONFLICT (store_id) DO UPDATE SET fence = h.fence + 1
RETURNING epoch, sequence, chain, fence, ended, current_setting('synchronous_standby_names')"""
_HEAD = """
SELECT epoch, sequence, chain, fence, ended, current_setting('synchronous_standby_names')
FROM keyhouse.head WHERE store_id = $1"""
_HEAD_COLUMNS = 6
# The message is committed after the head was read: when a standby has confirmed that commit, it was
# not promoted when the head was read, so nothing newer was acknowledged elsewhere.
_CONFIRMED_HEAD = """
WITH confirmed AS MATERIALIZED (SELECT pg_logical_emit_message(true, 'keyhouse', ''))
SELECT epoch, sequence, chain, fence, ended, current_setting('synchronous_standby_names')
FROM confirmed, keyhouse.head WHERE store_id = $1"""
_ROWS = "unnest($2::bigint[], $3::bytea[], $4::bytea[], $5::bytea[]) AS r"
_INSERT = f"INSERT INTO keyhouse.record SELECT $1, r.* FROM {_ROWS}"  # noqa: S608 - constants
_APPEND = f"""
WITH moved AS (
  UPDATE keyhouse.head SET sequence = $6, chain = $7
  WHERE store_id = $1 AND epoch = $8 AND sequence = $9 AND chain = $10 AND fence = $11
    AND ended = '' AND ($12 OR pg_try_advisory_xact_lock_shared({KEY[0]}, {KEY[1]}))
  RETURNING store_id, pg_notify('{_CHANNEL}', ''))
INSERT INTO keyhouse.record SELECT m.store_id, r.* FROM moved m, {_ROWS}"""  # noqa: S608
_INSERT_EPOCH = "INSERT INTO keyhouse.epoch VALUES ($1, $2, $3, $4, $5, $6)"
_SEAL = """
INSERT INTO keyhouse.sealed VALUES ($1, $2, $3)
ON CONFLICT (store_id, machine) DO UPDATE SET raw = excluded.raw"""
_CLEAR_NOTES = "DELETE FROM keyhouse.note WHERE store_id = $1 AND kind = ANY ($2::text[])"
_INSERT_NOTE = "INSERT INTO keyhouse.note VALUES ($1, $2, $3, $4)"
_MOVE_HEAD = f"""
UPDATE keyhouse.head SET epoch = $2, sequence = $3, chain = $4
WHERE store_id = $1 RETURNING pg_notify('{_CHANNEL}', '')"""  # noqa: S608
# One statement is one snapshot: start, records and head belong together.
_FOUND = """
SELECT h.epoch, h.sequence, h.chain, h.ended, e.epoch, e.first, e.previous, e.key_check,
  r.sequence, r.header, r.nonce, r.ciphertext, h.fence
FROM keyhouse.head h LEFT JOIN keyhouse.epoch e ON e.store_id = h.store_id
LEFT JOIN LATERAL (
  SELECT *, sum(octet_length(ciphertext)) OVER (ORDER BY sequence) AS size FROM (
    SELECT sequence, header, nonce, ciphertext FROM keyhouse.record
    WHERE store_id = $1 AND sequence > $2 ORDER BY sequence LIMIT 1000) AS next
) AS r ON r.size - octet_length(r.ciphertext) < 4194304
WHERE h.store_id = $1"""
_READ = f"{_FOUND} ORDER BY 9"
_READ_COLUMNS = 13
# For ``Turns``: one prepared statement waits for the lock and returns one row, or it reads.
_READ_IN_TURN = f"""
SELECT NULL::bigint, NULL::bigint, NULL::bytea, {LOCK}::text, NULL::bigint, NULL::bigint,
  NULL::bytea, NULL::bytea, NULL::bigint, NULL::bytea, NULL::bytea, NULL::bytea,
  NULL::bigint WHERE $3
UNION ALL ({_FOUND} AND NOT $3) ORDER BY 9"""
# Whether the newest records of the epoch are all there, up to a thousand.
_IS_WHOLE = """
SELECT least(1000, h.sequence - e.first + 1) = (
  SELECT count(*) FROM keyhouse.record r WHERE r.store_id = $1
    AND r.sequence BETWEEN greatest(e.first, h.sequence - 999) AND h.sequence)
FROM keyhouse.head h JOIN keyhouse.epoch e ON e.store_id = h.store_id WHERE h.store_id = $1"""


class PostgresStore:
    """One writer's way to the store ``store_id`` in a database that others write to as well.

    Two connections, so that no read waits for a commit. Each begins with a commit: with a
    synchronous standby it waits until the standby has all that is visible, so what is read
    afterwards was acknowledged by both. On the connection that writes it raises the fence of the
    head row, which every write compares: none that was sent before on another can take effect then.
    On the one that reads it needs no lock. Both lead to one server, that of the newer connection. A
    third one has the turns, once there are other writers.
    """

    def __init__(self, url: Secret, store_id: bytes) -> None:
        """Use ``open``."""
        self._url = url
        self._id = store_id
        self._writer: Connection | None = None
        self._reader: Connection | None = None
        self._writing, self._reading = asyncio.Lock(), asyncio.Lock()
        self._changed: Callable[[], None] = lambda: None
        self._ticking: asyncio.TimerHandle | None = None
        self._closed = False
        self._checked = 0.0
        self.is_whole = True
        self._turns = Turns(url, _READ_IN_TURN, _READ_COLUMNS)
        self._read_to = 0  # the sequence of the newest record that was read or written
        self._wrote_on: Connection | None = None  # the connection of the last write
        # Where the store ended when the fence was raised, for one ``settle``.
        self._fenced: tuple[Position | None] | None = None
        self._read_on: Connection | None = None  # the connection of the last read
        self._renewing: set[asyncio.Task[None]] = set()
        self._in_turn = False  # whether the next write need not regard the turns of others

    @classmethod
    async def open(cls, url: Secret, store_id: bytes) -> "PostgresStore":
        """Return the store in the database at ``url``, which must have the schema.

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
        """Keep ``records`` behind ``expected``; any trouble makes the outcome unknown."""
        place = (head.sequence, head.chain, expected.epoch, expected.sequence, expected.chain)
        async with self._writing:
            connection = await self._for_writing()
            if not self._in_turn:  # its own last one would be in the way
                await self._turns.ended()
            if self._in_turn:
                self._turns.writing()
            self._wrote_on = connection
            with outcome_unknown():
                rows = (*_columns(records), *place, connection.fence, self._in_turn)
                done = await connection.execute(_APPEND, self._id, *rows)
                if records and done == "INSERT 0 0":
                    raise _conflict()  # the next ``read`` learns the fence
                _require(connection, done, f"INSERT 0 {len(records)}")
        self._read_to = head.sequence

    async def read(self, after_seq: int) -> Batch:
        """Return up to 1,000 records, or about 4 MiB, after ``after_seq``."""
        batch = self._read_in_turn(after_seq)
        if batch is None:
            async with self._asking() as connection:
                rows = await connection.fetch(_READ, self._id, after_seq, columns=_READ_COLUMNS)
                self._learn_fence(rows)
                batch = _batch(self._id, rows)
                if batch.head is not None and not batch.records and not self._in_turn:
                    await self._check_tail(connection)
        self._read_to = batch.records[-1].sequence if batch.records else after_seq
        return batch

    def _read_in_turn(self, after_seq: int) -> Batch | None:
        """Return the batch that was read behind the lock of the turn; None if there is none.

        What was read since by itself may be newer: then this batch would look like a rollback.
        """
        rows = self._turns.take_rows() or []
        self._learn_fence(rows)
        batch = _batch(self._id, rows)
        if batch.start is None or batch.head is None:
            return None
        end = batch.head.sequence
        first = batch.records[0].sequence if batch.records else end + 1
        last = batch.records[-1].sequence if batch.records else end
        if not first - 1 <= after_seq <= last or (after_seq == last != end):
            return None
        later = tuple(each for each in batch.records if each.sequence > after_seq)
        return Batch(batch.start, later, batch.head)

    async def head(self) -> Position | None:
        """Return where the store ends.

        Where commits have to wait for standbys, so does this: a primary whose standby was promoted
        does not answer. Without that it could show an old end for as long as it runs.
        """
        async with self._asking() as connection:
            look = _CONFIRMED_HEAD if connection.standbys else _HEAD
            rows = await connection.fetch(look, self._id, columns=_HEAD_COLUMNS)
        return self._head(connection, rows)[0] if rows else None

    async def begin_epoch(
        self,
        expected: Position | None,
        start: EpochStart,
        records: Iterable[Sealed],
        beside: Beside = NOTHING,
        /,
    ) -> None:
        """Replace everything by ``records``, consumed in threads while the head row is locked.

        The bytes of older records are in dead rows, in the log and on standbys until PostgreSQL
        removes them.
        """
        self._turns.take_rows()
        async with self._writing:
            connection = await self._for_writing()
            self._wrote_on = connection
            with outcome_unknown():
                if await self._lock_head(connection) != expected:
                    await connection.execute("ROLLBACK")
                    raise _conflict()
                try:
                    await self._put_beside(connection, beside)
                    place = await self._replace(connection, start, beside, iter(records))
                except ConnectionDroppedError:
                    raise
                except BaseException:
                    connection.drop()  # which rolls back
                    raise
                _require(connection, await connection.execute("COMMIT"), "COMMIT")
        self.is_whole, self._read_to = True, place.sequence

    async def settle(self) -> Position | None:
        """Return where the store ends, on a connection that is newer than the last write.

        It fences off those before. So where the store ended when the fence was raised is enough to
        find out whether a write has happened.
        """
        self._turns.take_rows()  # from before the write
        async with self._writing:
            if self._writer is not None and self._writer is self._wrote_on:
                self._writer.drop()
            connection = await self._for_writing()
            fenced, self._fenced = self._fenced, None
            if fenced is not None:
                return fenced[0]
            with unreadable():
                return self._head(
                    connection, await connection.fetch(_HEAD, self._id, columns=_HEAD_COLUMNS)
                )[0]

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Return a context in which other writers of this version wait, as ``Turns``."""
        self._in_turn = await self._turns.begin(self._id, self._read_to)
        try:
            yield
        finally:
            self._in_turn = False
            self._turns.end()

    def watch(self, changed: Callable[[], None]) -> None:
        """Call ``changed`` when others tell of a write, and every second."""
        self._changed = changed
        if self._ticking is None:
            self._tick_later()

    async def close(self) -> None:
        """Close the connections."""
        self._closed = True
        if self._ticking is not None:
            self._ticking.cancel()
        for task in [*self._renewing]:
            task.cancel()
            await asyncio.wait([task])
        await self._turns.close()
        for connection in (self._writer, self._reader):
            if connection is not None:
                await connection.close()

    async def _check_tail(self, connection: Connection) -> None:
        """Find out whether the newest records are there, every second at most.

        A coordinator that has read them before does not read them again. It would append behind
        the gap, and no later start could read past that.
        """
        now = asyncio.get_running_loop().time()
        if not self.is_whole or now < self._checked + _EVERY:
            return
        self._checked = now
        rows = await connection.fetch(_IS_WHOLE, self._id, columns=1)
        self.is_whole = rows != [(False,)]
        if not self.is_whole:
            log.error("records are missing in the database: a new epoch replaces all of them")

    def _tick_later(self) -> None:
        self._ticking = asyncio.get_running_loop().call_later(_EVERY, self._tick)

    def _tick(self) -> None:
        self._tick_later()
        self._changed()

    def _heard(self, pid: int) -> None:
        if self._writer is None or pid != self._writer.server_pid:
            self._changed()

    async def _for_writing(self) -> Connection:
        if self._writer is None or self._writer.closed:
            self._writer = await self._connected(self._raise_fence)
        return self._writer

    async def _for_reading(self) -> Connection:
        if self._reader is None or self._reader.closed:
            self._reader = await self._connected(self._listen)
        return self._reader

    @asynccontextmanager
    async def _asking(self) -> AsyncIterator[Connection]:
        async with self._reading:
            with unreadable():
                self._read_on = await self._for_reading()
                yield self._read_on

    def _lost(self, connection: Connection) -> None:
        """Renew ``connection`` at once if it was lost while it was not in use.

        A server that ends connections ends all of them. A write needs the view first, so it would
        otherwise wait for one new connection after the other. A connection that was never used is
        not renewed before its use: the server might end each new one.
        """
        if self._closed:
            return
        if connection is self._writer is self._wrote_on and not self._writing.locked():
            self._renew(self._writing, self._for_writing)
        elif connection is self._reader is self._read_on and not self._reading.locked():
            self._renew(self._reading, self._for_reading)

    def _renew(
        self, lock: asyncio.Lock, connect_again: Callable[[], Awaitable[Connection]]
    ) -> None:
        async def renew() -> None:
            with suppress(StoreUnreadableError, StoreDamagedError, SupersededError):
                async with lock:
                    await connect_again()

        task = asyncio.create_task(renew())
        self._renewing.add(task)
        task.add_done_callback(self._renewing.discard)

    async def _listen(self, connection: Connection) -> None:
        await connection.listen(_CHANNEL, self._heard)

    async def _connected(self, begin: Callable[[Connection], Awaitable[None]]) -> Connection:
        """Return a new connection, on which ``begin`` was carried out."""
        if self._closed:
            raise StoreUnreadableError("the store was closed")
        connection = await connect(self._url)
        try:
            with unreadable():
                await begin(connection)
        except BaseException:
            connection.drop()
            raise
        for other in (self._writer, self._reader):  # of the two servers one is out of date
            if other is not None and other.server != connection.server:
                other.drop()
        self._turns.stay_at(connection.server)
        connection.when_lost(partial(self._lost, connection))
        return connection

    async def _raise_fence(self, connection: Connection) -> None:
        rows = await connection.fetch(_FENCE, self._id, columns=_HEAD_COLUMNS)
        position, connection.fence = self._head(connection, rows)
        self._fenced = (position,)

    def _learn_fence(self, rows: list[tuple[Any, ...]]) -> None:
        """Take the fence of a row of ``_READ``, which another writer's connection may have raised.

        What was sent on earlier connections has a lower one than this connection had raised. A row
        that was read before that has a lower one, too.
        """
        if self._writer is not None and rows and isinstance(rows[0][-1], int):
            self._writer.fence = max(self._writer.fence, rows[0][-1])

    async def _lock_head(self, connection: Connection) -> Position | None:
        """Return where the store ends, which no other can change until the transaction ends."""
        await connection.execute("BEGIN")
        rows = await connection.fetch(_HEAD + " FOR UPDATE", self._id, columns=_HEAD_COLUMNS)
        head, connection.fence = self._head(connection, rows)
        return head

    def _head(
        self, connection: Connection, rows: list[tuple[Any, ...]]
    ) -> tuple[Position | None, int]:
        """Return where the store ends, and its fence. Raises ``SupersededError`` if it has ended.

        If commits wait for too few standbys by now it is read no further, and the next write begins
        with a new connection, which is refused.
        """
        if len(rows) != 1 or not _has_types(rows[0], int, int, bytes, int, str, str):
            raise _damaged()
        *place, fence, ended, names = rows[0]
        _require_current(ended)
        try:
            require_standbys(connection.standbys, names)
        except StoreUnreadableError:
            if self._writer is not None:
                self._writer.drop()
            raise
        return _position(*place), fence

    async def _replace(
        self,
        connection: Connection,
        start: EpochStart,
        beside: Beside,
        records: Iterator[Sealed],
    ) -> Position:
        """Do all of ``begin_epoch`` that the journal consists of; return the place behind it."""
        for table in ("epoch", "record"):
            await connection.execute(
                f"DELETE FROM keyhouse.{table} WHERE store_id = $1",  # noqa: S608 - constants
                self._id,
            )
        what = (start.epoch, start.first, start.previous, start.key_check, beside.recovery_index)
        _require(connection, await connection.execute(_INSERT_EPOCH, self._id, *what), _ONE_ROW)
        place = start.before
        while True:
            piece, place = await asyncio.to_thread(_piece, records, place)
            if not piece:
                break
            done = await connection.execute(_INSERT, self._id, *_columns(piece))
            _require(connection, done, f"INSERT 0 {len(piece)}")
        end = (self._id, place.epoch, place.sequence, place.chain)
        _require(connection, await connection.execute(_MOVE_HEAD, *end), "UPDATE 1")
        return place

    async def _put_beside(self, connection: Connection, beside: Beside) -> None:
        for machine, raw in beside.sealed:
            done = await connection.execute(_SEAL, self._id, machine, raw)
            _require(connection, done, _ONE_ROW)
        kinds = {note.kind for note in beside.notes}
        await connection.execute(_CLEAR_NOTES, self._id, sorted(kinds))
        for note in beside.notes:
            row = (note.kind, note.name, note.raw)
            _require(connection, await connection.execute(_INSERT_NOTE, self._id, *row), _ONE_ROW)


def _conflict() -> StoreConflictError:
    return StoreConflictError("the database does not end where this writer left it")


def _require(connection: Connection, done: str, expected: str) -> None:
    """Check the tag of a command. What a server did that did something else is unknown."""
    if done != expected:
        connection.drop()
        raise ConnectionDroppedError


def _piece(records: Iterator[Sealed], place: Position) -> tuple[list[Sealed], Position]:
    """Return the next ``records``, a bounded number, and the place behind them."""
    piece, size = list[Sealed](), 0
    for record in records:
        piece.append(record)
        size += len(record.ciphertext)
        if len(piece) == _PIECE_RECORDS or size > _PIECE_BYTES:
            break
    return piece, follow(place, *piece)


def _columns(records: Sequence[Sealed]) -> tuple[list[Any], ...]:
    return (
        [record.sequence for record in records],
        [record.header for record in records],
        [record.nonce for record in records],
        [record.ciphertext for record in records],
    )


def _position(epoch: int, sequence: int, chain: bytes) -> Position | None:
    if (epoch, sequence, chain) == (0, 0, b""):
        return None
    if epoch <= 0 or sequence <= 0 or len(chain) != CHAIN_SIZE:
        raise _damaged()
    return Position(epoch, sequence, chain)


def _batch(store_id: bytes, rows: list[tuple[Any, ...]]) -> Batch:
    if not rows:
        return Batch(None, ())
    if not _has_types(rows[0][:4], int, int, bytes, str):
        raise _damaged()
    *place, ended = rows[0][:4]
    _require_current(ended)
    head = _position(*place)
    described = rows[0][4:8]
    if head is None:
        if any(value is not None for row in rows for value in row[4:12]):
            raise _damaged()
        return Batch(None, ())
    if not _has_types(described, int, int, bytes, bytes):
        raise _damaged()
    epoch, first, previous, check = described
    if min(epoch, first) <= 0 or (len(previous), len(check)) != (CHAIN_SIZE, 32):
        raise _damaged()
    # A row without a record is what the outer join makes of none.
    found = [row[8:12] for row in rows if row[8:12] != (None,) * 4]
    if not all(_has_types(each, int, bytes, bytes, bytes) for each in found):
        raise _damaged()
    start = EpochStart(store_id, epoch, first, previous, check)
    return Batch(start, tuple(Sealed(*each) for each in found), head)


def _require_current(ended: str) -> None:
    if not ended:
        return
    if ended.startswith("moved "):
        word, hint = "moved", "start the coordinator of the directory that it was moved to"
    else:
        word, hint = "archived", "start this one again: it serves what has taken its place"
    raise SupersededError(f"the store in the database has ended: it was {word}", hint=hint)


def _has_types(values: tuple[Any, ...], *types: type) -> bool:
    """Tell whether ``values`` are what the columns hold: the server might say they hold others."""
    return len(values) == len(types) and all(map(isinstance, values, types))


def _damaged() -> StoreDamagedError:
    return StoreDamagedError(
        "the database does not hold what Keyhouse wrote",
        hint="restore the database from a backup",
    )

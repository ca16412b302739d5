"""Store the journal in one SQLite file, with one connection and one thread.

The file has no chain values. The store hashes the records once after it opens the file, and
remembers the *hashed end*: the place after the last hashed record. The file is locked, so no other
process can write in the meantime.
"""

import sqlite3
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path
from typing import Any, TypeVar

from keyhouse.base.errors import KeyhouseError
from keyhouse.journal.store.protocol import (
    NOTHING,
    Batch,
    Beside,
    EpochStart,
    Fence,
    OutcomeUnknownError,
    Position,
    Sealed,
    Step,
    StoreConflictError,
    StoreDamagedError,
    SupersededError,
    follow,
    no_fence,
    no_step,
)
from keyhouse.journal.store.sqlite_file import FAULTS, Worker, connect, is_unwritten, read_error

T = TypeVar("T")

_BATCH_RECORDS = 1000  # of one read, chosen
_BATCH_BYTES = 4 * 1024 * 1024  # of one read, chosen
_INSERT = "INSERT INTO record (sequence, header, nonce, ciphertext) VALUES (?, ?, ?, ?)"
_INSERT_EPOCH = (
    "INSERT INTO epoch (epoch, store_id, first, previous, key_check) VALUES (?, ?, ?, ?, ?)"
)


class SqliteStore:
    """Stores the records in a SQLite file in WAL mode. A commit is one sync of the WAL.

    After a write with an unknown outcome the connection is closed. So the next call reads the disk
    and not the caches of this process. All calls run one after the other on one thread. So every
    earlier write has ended before a ``settle``.
    """

    is_whole = True

    def __init__(self, path: Path, step: Step, fence: Fence, *, synced: bool) -> None:
        """Store the arguments. Callers use ``open`` instead."""
        self._path = path
        self._synced = synced
        self._step = step
        self._fence = fence
        self._worker = Worker(f"keyhouse-{path.name}")
        self._connection: sqlite3.Connection | None = None
        self._closed = False
        # True while the WAL may still contain bytes of an ended epoch.
        self._unscrubbed = True
        # True from a failed commit with an unknown outcome until the file is synced again.
        self._suspect = False
        # None until the first read on this connection. No other process can write meanwhile.
        self._hashed_end: Position | None = None

    @classmethod
    async def open(
        cls,
        path: Path,
        *,
        step: Step = no_step,
        fence: Fence = no_fence,
        synced: bool = True,
    ) -> "SqliteStore":
        """Return the checked store at ``path``; create an empty store if the file is missing.

        ``step`` is called before each durable step. ``fence`` is called after each read and commit,
        before the result is returned. Without ``synced`` nothing is durable: the caller syncs the
        file after ``close``. Raises ``StoreDamagedError``, ``StoreNewerError``,
        ``StoreLockedError``, ``StoreFullError``, or ``StoreUnreadableError``.
        """
        store = cls(path, step, fence, synced=synced)
        try:
            await store._worker.run(store._connected)
        except BaseException:
            await store.close()
            raise
        return store

    def append(
        self, expected: Position, records: Sequence[Sealed], head: Position
    ) -> Coroutine[Any, Any, None]:
        """Append ``records`` after ``expected`` in one transaction."""
        return self._worker.run(lambda: self._append(expected, records, head))

    async def append_early(
        self, expected: Position, records: Sequence[Sealed], head: Position
    ) -> None:
        """Append as ``append``: an early return has no use for a single writer."""
        await self.append(expected, records, head)

    async def read(self, after_seq: int) -> Batch:
        """Return up to 1,000 records, or about 4 MiB, after ``after_seq``."""
        return await self._worker.run(lambda: self._read(after_seq))

    async def start(self) -> EpochStart | None:
        """Return the start of the present epoch without its records; None if the store is empty."""
        return await self._worker.run(self._start)

    async def head(self) -> Position | None:
        """Return the place of the last record; None if the store is empty."""
        return await self._worker.run(self._head)

    async def begin_epoch(
        self,
        expected: Position | None,
        start: EpochStart,
        records: Iterable[Sealed],
        _beside: Beside = NOTHING,
        /,
    ) -> None:
        """Replace all records by ``records``, consumed on the store's thread."""
        await self._worker.run(lambda: self._begin_epoch(expected, start, records))

    async def settle(self) -> Position | None:
        """Return the end of the store, after all earlier calls have ended."""
        return await self._worker.run(self._head)

    def turn(self) -> AbstractAsyncContextManager[None]:
        """Return a context without an effect: this process alone writes to the open file."""
        return nullcontext()

    def watch(self, changed: Callable[[], None]) -> None:
        """Do nothing: this process alone writes to the open file."""

    async def close(self) -> None:
        """Write the WAL back to the file and release both."""
        if not self._closed:
            self._closed = True
            await self._worker.run(self._drop)
        await self._worker.close()

    def _connected(self) -> sqlite3.Connection:
        if self._connection is None:
            self._fence()
            connection = connect(self._path, synced=self._synced)
            self._unscrubbed = True
            try:
                self._scrub(connection)
            except FAULTS as exc:
                # A full disk does not prevent reads, unless the last sync failed. Then the WAL may
                # be right only in the page cache, until the checkpoint has synced the file.
                if self._suspect or not is_unwritten(exc):
                    connection.close()
                    raise read_error(exc, self._path) from None
            except BaseException:
                connection.close()
                raise
            self._connection, self._suspect = connection, False
        return self._connection

    def _drop(self) -> None:
        connection, self._connection, self._hashed_end = self._connection, None, None
        if connection is None:
            return
        try:
            self._fence()
        except SupersededError:
            _never_close(connection)
        else:
            connection.close()

    def _scrub(self, connection: sqlite3.Connection) -> None:
        """Empty the WAL. Afterwards the live files have no bytes of ended epochs."""
        if not self._unscrubbed:
            return
        self._step("truncate the WAL")
        busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        self._unscrubbed = bool(busy)

    def _read(self, after_seq: int) -> Batch:
        def batch(connection: sqlite3.Connection) -> Batch:
            start = _start(connection, self._path)
            records = _records(connection, after_seq, self._path)
            self._follow(start, records)
            return Batch(start, records, None if records else self._end(connection))

        return self._query(batch)

    def _start(self) -> EpochStart | None:
        return self._query(lambda connection: _start(connection, self._path))

    def _head(self) -> Position | None:
        return self._query(self._end)

    def _query(self, at: Callable[[sqlite3.Connection], T]) -> T:
        """Run ``at``, a function that reads the file; return its result.

        Raises ``SupersededError`` if another process now owns the state directory.
        """
        connection = self._connected()
        try:
            found = at(connection)
        except FAULTS as exc:
            self._drop()
            raise read_error(exc, self._path) from None
        self._fence()
        return found

    def _append(self, expected: Position, records: Sequence[Sealed], head: Position) -> None:
        def put(connection: sqlite3.Connection) -> Position:
            self._compare(connection, expected)
            _insert(connection, records, self._path)
            return head

        self._commit(put)

    def _begin_epoch(
        self, expected: Position | None, start: EpochStart, records: Iterable[Sealed]
    ) -> None:
        def put(connection: sqlite3.Connection) -> Position:
            self._compare(connection, expected)
            _replace_epoch(connection, start, self._path)
            head = start.before
            for record in records:
                _insert(connection, (record,), self._path)
                head = follow(head, record)
            return head

        self._commit(put)
        self._unscrubbed = True
        try:
            self._scrub(self._connected())
        except (*FAULTS, OSError):
            # The epoch is committed, so this is not a failure. The next write, or the next start,
            # empties the WAL first.
            self._drop()

    def _compare(self, connection: sqlite3.Connection, expected: Position | None) -> None:
        # Each statement makes an append slower. One statement is enough if the hashed end is past
        # all records.
        end = self._hashed_end
        if end is None or _last(connection) != end.sequence:
            end = self._end(connection)
        if end != expected:
            raise StoreConflictError(
                f"the last records in {self._path.name} are not the records of this writer"
            )

    def _follow(self, start: EpochStart | None, records: Sequence[Sealed]) -> None:
        """Move the hashed end after ``records``, if they follow the hashed end without a gap.

        ``start``: the start of the present epoch. If the hashed end belongs to another epoch, first
        move it to ``start``.
        """
        if start is None:
            return
        end = self._hashed_end
        if end is None or end.epoch != start.epoch:
            end = start.before
        first, last = end.sequence + 1, end.sequence + len(records)
        if records and (records[0].sequence, records[-1].sequence) == (first, last):
            end = follow(end, *records)
        self._hashed_end = end

    def _end(self, connection: sqlite3.Connection) -> Position | None:
        """Return the place of the last record.

        The hashed end is the last place with a known chain value. First compute the chain values of
        all later records.
        """
        start, last = _start(connection, self._path), _last(connection)
        if start is None:
            if last is not None:
                raise StoreDamagedError(
                    f"{self._path.name} has records but no epoch: it is damaged"
                )
            return None
        self._follow(start, ())
        while self._hashed_end is not None and self._hashed_end.sequence < (last or 0):
            before = self._hashed_end
            self._follow(start, _records(connection, before.sequence, self._path))
            if self._hashed_end == before:
                raise StoreDamagedError(
                    f"record {before.sequence + 1} in {self._path.name} is missing",
                    hint="restore the state directory from a backup",
                )
        return self._hashed_end

    def _commit(self, put: Callable[[sqlite3.Connection], Position]) -> None:
        """Run ``put`` in a transaction and commit; ``put`` returns the new end of the file."""
        connection = self._connected()
        try:
            self._scrub(connection)
            self._step("begin")
            connection.execute("BEGIN IMMEDIATE")
            end = put(connection)
            self._step("commit")
        except FAULTS as exc:
            # COMMIT was not executed, so nothing was written.
            self._undo(connection)
            raise read_error(exc, self._path) from None
        except BaseException:
            self._undo(connection)
            raise
        try:
            connection.execute("COMMIT")
        except FAULTS as exc:
            raise self._failed_commit(connection, exc) from None
        self._hashed_end = end
        self._step("committed")
        self._fence()

    def _failed_commit(self, connection: sqlite3.Connection, error: Exception) -> KeyhouseError:
        if is_unwritten(error):
            self._undo(connection)
            return read_error(error, self._path)
        self._drop()
        self._suspect = True
        return OutcomeUnknownError(
            f"a write to {self._path.name} failed and may or may not be there",
            hint="check the disk of the state directory",
        )

    def _undo(self, connection: sqlite3.Connection) -> None:
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        except FAULTS:
            self._drop()


def _never_close(connection: sqlite3.Connection) -> None:
    """Leave ``connection`` open until the process ends: another process owns the directory.

    On a close, SQLite deletes the WAL by its name. The file with this name now belongs to the
    process that owns the directory.
    """
    import ctypes

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))


def _start(connection: sqlite3.Connection, path: Path) -> EpochStart | None:
    rows = connection.execute(
        "SELECT store_id, epoch, first, previous, key_check FROM epoch LIMIT 2"
    ).fetchall()
    if not rows:
        return None
    store_id, epoch, first, previous, check = rows[0]
    # SQLite enforces STRICT on writes only, and another program may have written this file.
    numbers = all(isinstance(value, int) and value > 0 for value in (epoch, first))
    sizes = ((store_id, 16), (previous, 32), (check, 32))
    if len(rows) > 1 or not numbers or any(not _is_blob(*pair) for pair in sizes):
        raise StoreDamagedError(f"the start of the epoch in {path.name} has been changed")
    return EpochStart(store_id, epoch, first, previous, check)


def _is_blob(value: object, size: int) -> bool:
    return isinstance(value, bytes) and len(value) == size


def _last(connection: sqlite3.Connection) -> int | None:
    (last,) = connection.execute("SELECT max(sequence) FROM record").fetchone()
    return None if last is None else int(last)


def _records(connection: sqlite3.Connection, after_seq: int, path: Path) -> tuple[Sealed, ...]:
    rows = connection.execute(
        "SELECT sequence, header, nonce, ciphertext FROM record"
        " WHERE sequence > ? ORDER BY sequence LIMIT ?",
        (after_seq, _BATCH_RECORDS),
    )
    found: list[Sealed] = []
    size = 0
    for sequence, *blobs in rows:
        if not all(isinstance(blob, bytes) for blob in blobs):
            raise StoreDamagedError(f"record {sequence} in {path.name} has been changed")
        found.append(Sealed(sequence, *blobs))
        size += len(found[-1].ciphertext)
        if size > _BATCH_BYTES:
            break
    rows.close()
    return tuple(found)


def _insert(connection: sqlite3.Connection, records: Sequence[Sealed], path: Path) -> None:
    before = connection.total_changes
    rows = [(each.sequence, each.header, each.nonce, each.ciphertext) for each in records]
    cursor = connection.executemany(_INSERT, rows)
    if cursor.rowcount != len(rows) or connection.total_changes - before != len(rows):
        raise _discarded_change(path)


def _replace_epoch(connection: sqlite3.Connection, start: EpochStart, path: Path) -> None:
    connection.execute("DELETE FROM epoch")
    connection.execute("DELETE FROM record")
    left = connection.execute("SELECT count(*) FROM epoch UNION ALL SELECT count(*) FROM record")
    row = (start.epoch, start.store_id, start.first, start.previous, start.key_check)
    if left.fetchall() != [(0,), (0,)] or connection.execute(_INSERT_EPOCH, row).rowcount != 1:
        raise _discarded_change(path)


def _discarded_change(path: Path) -> StoreDamagedError:
    return StoreDamagedError(
        f"{path.name} discarded a change without an error",
        hint="restore the state directory from a backup",
    )

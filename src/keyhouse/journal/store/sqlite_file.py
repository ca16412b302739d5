"""Open a SQLite file that an attacker may have written, and use the file on a thread of its own.

All settings are made and read back before the first use of a table. The schema must be exactly the
expected schema. Otherwise a planted trigger could discard an INSERT without an error, and a view
could replace a table.
"""

import asyncio
import sqlite3
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import TypeVar

from keyhouse.base.durable_files import create
from keyhouse.base.errors import KeyhouseError
from keyhouse.journal.store.protocol import (
    StoreDamagedError,
    StoreFullError,
    StoreLockedError,
    StoreNewerError,
    StoreUnreadableError,
)

APPLICATION_ID = 0x4B486A6C  # "KHjl" in ASCII, chosen: names the program in SQLite's header
SCHEMA_VERSION = 1  # the present schema of journal.db
FAULTS = (sqlite3.Error, UnicodeDecodeError)
"""Errors of sqlite3 on a damaged file. Its messages may quote bytes that are not UTF-8."""
# Bytes. A record is smaller.
_LARGEST_VALUE = 32 * 1024 * 1024

_EPOCH_TABLE = (
    "CREATE TABLE epoch (epoch INTEGER PRIMARY KEY, store_id BLOB NOT NULL,"
    " first INTEGER NOT NULL, previous BLOB NOT NULL, key_check BLOB NOT NULL) STRICT"
)
_RECORD_TABLE = (
    "CREATE TABLE record (sequence INTEGER PRIMARY KEY, header BLOB NOT NULL,"
    " nonce BLOB NOT NULL, ciphertext BLOB NOT NULL) STRICT"
)
_SCHEMA = (
    ("table", "epoch", "epoch", _EPOCH_TABLE),
    ("table", "record", "record", _RECORD_TABLE),
)

# Exclusive locking comes before WAL. Then the index of the WAL is in the memory of this process,
# and no other process can open the file. Each row has a name, the value to set, and the value that
# SQLite reads back.
_SETTINGS: tuple[tuple[str, str, object], ...] = (
    ("trusted_schema", "OFF", 0),
    ("cell_size_check", "ON", 1),
    ("mmap_size", "0", 0),
    ("temp_store", "MEMORY", 2),
    ("secure_delete", "ON", 1),
    ("locking_mode", "EXCLUSIVE", "exclusive"),
    ("journal_mode", "WAL", "wal"),
    ("synchronous", "FULL", 2),
)
# The setting comes first: otherwise the change to WAL mode would sync the file.
_NOT_SYNCED = (("synchronous", "OFF", 0), *_SETTINGS[:-1])


def connect(path: Path, *, synced: bool = True) -> sqlite3.Connection:
    """Return a connection to the checked store at ``path``; create a missing file (0600).

    Without ``synced``, commits do not wait for the disk and are not durable.

    Raises ``StoreDamagedError``, ``StoreNewerError``, ``StoreLockedError``, ``StoreFullError`` or
    ``StoreUnreadableError``.
    """
    _check_file(path)
    try:
        connection = sqlite3.connect(path, timeout=0, isolation_level=None)
    except FAULTS as exc:
        raise read_error(exc, path) from None
    try:
        _prepare(connection, path, synced=synced)
    except FAULTS as exc:
        connection.close()
        raise read_error(exc, path) from None
    except BaseException:
        connection.close()
        raise
    return connection


def read_error(error: Exception, path: Path) -> KeyhouseError:
    """Return the error of Keyhouse for an error of SQLite outside of a COMMIT."""
    code = primary_code(error)
    # SQLite 3.53 reports a file that ends within a page as a short read, 3.40 as corrupt.
    is_cut = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_IOERR_SHORT_READ
    if is_cut or code in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}:
        return StoreDamagedError(
            f"{path.name} is damaged", hint="restore the state directory from a backup"
        )
    if code in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
        return StoreLockedError(
            f"{path.name} is in use by another process", hint="stop that process"
        )
    if code == sqlite3.SQLITE_FULL:
        return StoreFullError(
            f"the disk has no space left for {path.name}", hint="free some space on the disk"
        )
    if is_unwritten(error):
        return StoreUnreadableError(
            f"{path.name} cannot be written", hint="free some space on the disk, or check the disk"
        )
    if code in {sqlite3.SQLITE_ERROR, sqlite3.SQLITE_MISMATCH, None}:
        # Statements of Keyhouse fail like this only on tables that Keyhouse did not create.
        return StoreDamagedError(
            f"{path.name} has content that Keyhouse did not write",
            hint="restore the state directory from a backup",
        )
    return StoreUnreadableError(
        f"{path.name} cannot be read or written",
        hint="check the disk and the permissions of the state directory",
    )


def primary_code(error: Exception) -> int | None:
    """Return the primary result code in ``error``; None if SQLite did not raise ``error``."""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


def is_unwritten(error: Exception) -> bool:
    """Return whether ``error`` is a failed write to the file.

    Then the last frame, with the commit mark, is not in the file, so nothing was committed. Any
    reason counts, because Gramine does not report a full disk (ENOSPC).
    """
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return primary_code(error) == sqlite3.SQLITE_FULL or code == sqlite3.SQLITE_IOERR_WRITE


def _check_file(path: Path) -> None:
    """Create the file if it is missing; refuse anything except a regular file."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        try:
            create(path).close()
        except OSError:
            raise StoreUnreadableError(
                f"{path.name} cannot be created",
                hint="check the disk and the permissions of the state directory",
            ) from None
        return
    except OSError:
        raise StoreUnreadableError(
            f"{path.name} cannot be inspected", hint="check the permissions of the state directory"
        ) from None
    if not stat.S_ISREG(found.st_mode):
        raise StoreDamagedError(f"{path.name} is not a regular file")


def _prepare(connection: sqlite3.Connection, path: Path, *, synced: bool) -> None:
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LARGEST_VALUE)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    for name, value, expected in _SETTINGS if synced else _NOT_SYNCED:
        connection.execute(f"PRAGMA {name}={value}")
        (found,) = connection.execute(f"PRAGMA {name}").fetchone()
        if found != expected:
            raise StoreDamagedError(
                f"{path.name} cannot be used safely: SQLite's setting {name} must be {value}, and"
                " SQLite does not accept this value",
                hint="restore the state directory from a backup",
            )
    connection.execute("BEGIN EXCLUSIVE")
    if _number(connection, "page_count") == 0 or not _is_ours(connection, path):
        _create(connection)
    connection.execute("COMMIT")
    _check_schema(connection, path)
    (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        raise StoreDamagedError(
            f"{path.name} is damaged", hint="restore the state directory from a backup"
        )


def _number(connection: sqlite3.Connection, pragma: str) -> int:
    (value,) = connection.execute(f"PRAGMA {pragma}").fetchone()
    return int(value)


def _is_ours(connection: sqlite3.Connection, path: Path) -> bool:
    """Return True for a store of Keyhouse, False for an empty file; refuse other files."""
    application = _number(connection, "application_id")
    version = _number(connection, "user_version")
    (objects,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if (application, version, objects) == (0, 0, 0):
        return False
    if application != APPLICATION_ID:
        raise StoreDamagedError(f"{path.name} is not a journal of Keyhouse")
    if version > SCHEMA_VERSION:
        raise StoreNewerError(
            f"{path.name} has format {version}, this version of Keyhouse reads {SCHEMA_VERSION}",
            hint="start the version of Keyhouse that wrote the file, or a later version",
        )
    if version != SCHEMA_VERSION:
        raise StoreDamagedError(f"{path.name} has the unknown format {version}")
    return True


def _create(connection: sqlite3.Connection) -> None:
    for *_, text in _SCHEMA:
        connection.execute(text)
    connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version={SCHEMA_VERSION}")


def _check_schema(connection: sqlite3.Connection, path: Path) -> None:
    found = connection.execute(
        "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY name, type"
    ).fetchall()
    if tuple(found) != _SCHEMA:
        raise StoreDamagedError(
            f"{path.name} has tables, triggers or views that Keyhouse did not make",
            hint="restore the state directory from a backup",
        )


T = TypeVar("T")


class Worker:
    """Runs calls one after the other on a single thread, which lives until ``close``.

    A call costs less than with ``asyncio.to_thread``, which has a pool and copies the context. All
    calls run on the same thread.
    """

    def __init__(self, name: str) -> None:
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._closed = False
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    async def run(self, call: Callable[[], T]) -> T:
        """Return the result of ``call`` or raise its error.

        The cancellation of the caller does not stop ``call``.
        """
        if self._closed:
            raise RuntimeError("the worker is closed")
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()

        def work() -> None:
            try:
                result = call()
            except BaseException as exc:  # noqa: BLE001 - all of it belongs to the caller
                _deliver(loop, done, exc, None)
            else:
                _deliver(loop, done, None, result)

        self._calls.put(work)
        return await done

    async def close(self) -> None:
        """Return after all submitted calls have run and the thread has ended."""
        if not self._closed:
            self._closed = True
            self._calls.put(None)
        await asyncio.to_thread(self._thread.join)

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            call()
            # While the thread waits, it must not keep any part of a call: a write can have 20 MB.
            del call


def _deliver(
    loop: asyncio.AbstractEventLoop,
    done: "asyncio.Future[T]",
    error: BaseException | None,
    result: T | None,
) -> None:
    def settle() -> None:
        if done.cancelled():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)  # type: ignore[arg-type] # None only where T allows it

    try:
        loop.call_soon_threadsafe(settle)
    except RuntimeError:
        # The loop is closed, so no task awaits the result.
        return

"""Moving the store of a state directory into a database. Its data key is not needed.

There are never two stores that could be written. The directory's store moves to its ``archive/``
before the one in the database is served, and only ``sealed_key`` comes back, which a start without
the database refuses. A crash between leaves neither: then the archived store can be restored, or
the copy repeated after that.
"""

from datetime import UTC, datetime
from pathlib import Path

import msgspec

from keyhouse.base.errors import BrokenError, RefusedError
from keyhouse.base.secret import Secret
from keyhouse.journal.directory import replacement
from keyhouse.journal.directory.acquire import acquire, survey
from keyhouse.journal.directory.disk import Disk, off_loop
from keyhouse.journal.directory.found import empty_journal, ended_but_there
from keyhouse.journal.directory.index_file import read_index, settle_index
from keyhouse.journal.directory.inspect import see_tombstone
from keyhouse.journal.directory.layout import ARCHIVE, JOURNAL, SEALED_KEY
from keyhouse.journal.directory.sealing import FILE_LIMIT
from keyhouse.journal.offline.archive import archived_names
from keyhouse.journal.shared.log_parts import copy_log_in
from keyhouse.journal.shared.whole import Whole, read_whole
from keyhouse.journal.store.postgres import PostgresStore
from keyhouse.journal.store.postgres_database import PostgresDatabase
from keyhouse.journal.store.records import Beside, Position
from keyhouse.journal.store.sqlite import SqliteStore


class DatabaseInUseError(RefusedError):
    """The database has a store already."""

    code = "database-in-use"


class MovedIn(msgspec.Struct, frozen=True):
    """What was moved, and where the directory keeps what it had."""

    store_id: bytes
    position: Position
    archive: str  # name under archive/


async def move_in(path: Path, url: Secret, database: PostgresDatabase) -> MovedIn:
    """Move the store in the directory ``path``, which no coordinator uses, to ``database``.

    Returns once it is served from there. Raises ``DatabaseInUseError``, and as a start does for a
    directory that is not whole: then nothing has changed.
    """
    disk = Disk()
    lock = await off_loop(acquire, path, disk)
    try:
        present = await off_loop(survey, path, disk)
        if JOURNAL not in present:
            raise empty_journal("missing")
        if (ended := await off_loop(see_tombstone, path)) is not None:
            raise ended_but_there(ended, JOURNAL)
        await _require_unused(database)
        whole, index = await _read_directory(path, disk)
        await copy_log_in(disk, path, database)
        await _write(url, whole, index)
        archive = await off_loop(_archive, path, disk, whole.start.epoch)
        await database.make_current(whole.start.store_id, before=None)
        await off_loop(_bring_key_back, path, disk, archive)
    finally:
        lock.release()
    return MovedIn(whole.start.store_id, whole.head, archive)


async def _require_unused(database: PostgresDatabase) -> None:
    if await database.current() is not None:
        raise DatabaseInUseError(
            "the database has a store already",
            hint="give the URL of a database that keyhouse store init has just prepared",
        )


async def _read_directory(path: Path, disk: Disk) -> tuple[Whole, bytes]:
    source = await SqliteStore.open(path / JOURNAL, step=disk.step, fence=disk.fence)
    try:
        whole = await read_whole(source)
    finally:
        await source.close()
    return whole, await off_loop(read_index, disk, path, whole.start)


async def _write(url: Secret, whole: Whole, index: bytes) -> None:
    """Write ``whole`` to the database, and read it back. An earlier attempt is replaced."""
    target = await PostgresStore.open(url, whole.start.store_id)
    try:
        beside = Beside(index)
        await target.begin_epoch(await target.settle(), whole.start, whole.records, beside)
        if await read_whole(target) != whole:
            raise BrokenError("the database does not hold what was written to it")
    finally:
        await target.close()


def _archive(path: Path, disk: Disk, epoch: int) -> str:
    """Move the store to ``archive/``, durably; return its name there."""
    settle_index(disk, path, epoch)
    before = archived_names(path)
    name = replacement.archive_name(disk, path, datetime.now(UTC))
    replacement.prepare(disk, path, name, clear=True)
    replacement.commit(disk, path)
    replacement.finish(disk, path)
    (archived,) = set(archived_names(path)).difference(before)
    return archived


def _bring_key_back(path: Path, disk: Disk, archive: str) -> None:
    raw = disk.read(path / ARCHIVE / archive / SEALED_KEY, limit=FILE_LIMIT)
    if raw is not None:
        disk.write(path / SEALED_KEY, raw)

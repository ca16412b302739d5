"""Move the store of a deployment from a state directory into a database, and back.

All records are read from the source and written to the target. Then the target is read and
compared. The data key is not needed: chain values are hashes over sealed records. At every moment,
at most one of the two stores accepts writes.

Out of a database: the target store in the directory is complete and compared first. Then the store
in the database ends. Only then the store in the directory becomes valid. A crash between the last
two steps leaves no valid store: repeat the move to the same directory.

Into a database: the store in the directory moves to its ``archive/``. Then the database serves the
store. Then ``sealed_key`` returns to the directory; a start without the database refuses a
directory with only this file. A crash between the first two steps leaves no valid store: restore
the archived store, and repeat the move if wanted.
"""

import hashlib
import os
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from keyhouse.base.errors import BrokenError, RefusedError, UnavailableError
from keyhouse.base.secret import Secret
from keyhouse.journal.chain import Header
from keyhouse.journal.directory import replacement, sealing
from keyhouse.journal.directory.acquire import acquire, list_store_files
from keyhouse.journal.directory.disk import (
    ARCHIVE,
    INDEX,
    JOURNAL,
    SEALED_KEY,
    TOMBSTONE,
    Disk,
    off_loop,
)
from keyhouse.journal.directory.index_file import IndexFile, read_index, settle_index
from keyhouse.journal.directory.inspect import see_tombstone
from keyhouse.journal.directory.load_result import empty_journal, ended_but_there, mixed
from keyhouse.journal.directory.sealing import FILE_LIMIT
from keyhouse.journal.epoch_reader import StoreEmptyError
from keyhouse.journal.offline.archive import archived_names, require_whole
from keyhouse.journal.offline.backup import NotEmptyError, Verify, make_backup_of
from keyhouse.journal.offline.inspect import see_journal
from keyhouse.journal.offline.shared_log_parts import copy_log_in, copy_log_out
from keyhouse.journal.store.postgres import PostgresStore
from keyhouse.journal.store.postgres_connection import outcome_unknown
from keyhouse.journal.store.postgres_database import PostgresDatabase
from keyhouse.journal.store.protocol import (
    Beside,
    EpochStart,
    Position,
    Sealed,
    Store,
    StoreConflictError,
    StoreDamagedError,
    StoreLockedError,
    follow,
)
from keyhouse.journal.store.sqlite import SqliteStore

_ATTEMPTS = 8  # attempts to read a state that a coordinator replaces meanwhile, chosen


class Whole(msgspec.Struct, frozen=True):
    """All records of the present epoch, with a complete chain."""

    start: EpochStart
    records: tuple[Sealed, ...]
    head: Position


async def read_whole(store: Store) -> Whole:
    """Return all records of ``store``, after a check of their chain and its end.

    Other writers may append meanwhile. Raises ``StoreConflictError`` if they begin an epoch.
    """
    start = (await store.read(0)).start
    if start is None:
        raise empty_journal()
    place, records = start.before, list[Sealed]()
    while True:
        batch = await store.read(place.sequence)
        if batch.start != start:
            raise StoreConflictError(
                "another writer began an epoch during the read", hint="try again later"
            )
        for record in batch.records:
            place = _following(place, record, start)
        records += batch.records
        if batch.head == place:
            return Whole(start, tuple(records), place)
        if not batch.records:
            raise StoreDamagedError("the journal does not end with its last record")


async def read_database(database: PostgresDatabase) -> tuple[Whole, bytes]:
    """Return the served store of the database and its recovery index, at one moment.

    Raises ``StoreEmptyError``, ``SupersededError``, ``StoreDamagedError``, ``UnavailableError``.
    """
    store_id = await database.current()
    if store_id is None:
        raise StoreEmptyError(
            "the database has no store", hint="give the URL of the database that is served"
        )
    store = await PostgresStore.open(database.url, store_id)
    try:
        for _ in range(_ATTEMPTS):
            try:
                whole = await read_whole(store)
            except StoreConflictError:
                continue
            index = await database.recovery_index(store_id, whole.start.epoch)
            if index is not None:
                return whole, index
    finally:
        await store.close()
    raise UnavailableError("the database changes faster than it can be read", hint="try again")


def _following(place: Position, record: Sealed, start: EpochStart) -> Position:
    """Return the place after ``record``, the next record after ``place`` in the epoch ``start``.

    Raises ``StoreDamagedError`` for any record except the next record.
    """
    header = Header.decode(record.header)
    number = place.sequence + 1
    found = (header.store_id, header.epoch, header.sequence, record.sequence)
    if found != (start.store_id, start.epoch, number, number):
        raise StoreDamagedError(
            f"record {number} is missing, or belongs to another place or deployment",
            hint="restore the state directory from a backup",
        )
    return follow(place, record)


class NoKeyError(RefusedError):
    """A directory lacks the sealed key that would open the store there."""

    code = "no-sealed-key"


async def move_out(database: PostgresDatabase, path: Path, verify: Verify) -> bytes:
    """Move the store in ``database`` to the directory ``path``; no coordinator may serve it.

    ``path`` must be the directory of a coordinator that served the store: of a store's files, the
    directory has only ``sealed_key``. ``verify`` checks the new store before the move is valid.
    Returns the store's id. After ``OutcomeUnknownError``, repeat the move. After
    ``StoreLockedError``, ``NotEmptyError``, ``NoKeyError``, or the refusals of a damaged store,
    nothing has changed.
    """
    disk = Disk()
    lock = await off_loop(acquire, path, disk)
    try:
        key = await off_loop(_only_key, path, disk)
        to = hashlib.sha256(key).hexdigest()
        store_id = sealing.parse(key).store_id
        await resume_move(database, store_id, to=to)
        if await database.others_present():
            raise StoreLockedError(
                "a coordinator serves the database",
                hint="stop all coordinators that serve the database, then repeat the move",
            )
        whole, index = await read_database(database)
        if whole.start.store_id != store_id:
            raise mixed(SEALED_KEY, "the database")
        name = replacement.archive_name(disk, path, datetime.now(UTC))
        place = await off_loop(replacement.prepare, disk, path, name)
        try:
            await _fill(place, disk, whole, index)
            await off_loop(disk.write, place / SEALED_KEY, key)
            require_whole(disk, place, await see_journal(place))
            await verify(place)
            await off_loop(disk.remove, place / SEALED_KEY)
            await copy_log_out(disk, database, path)
            await _end(database, whole, to)
            await off_loop(replacement.commit, disk, path)
        except BaseException:
            if not replacement.is_committed(path):
                replacement.abandon(disk, path)
            raise
        await off_loop(replacement.finish, disk, path)
        return store_id
    finally:
        lock.release()


async def back_up_database(
    database: PostgresDatabase, target: Path, key: Path | None, verify: Verify
) -> None:
    """Create ``target`` as a backup of the store that ``database`` serves.

    ``key`` is the ``sealed_key`` of a coordinator that serves the store, for the backup. Without
    it, only the recovery keys open the backup. Coordinators may run meanwhile. ``verify`` and
    errors: as for ``make_backup``.
    """

    async def fill(disk: Disk) -> None:
        await copy_database(database, target, key, disk)

    await make_backup_of(fill, target, verify)


async def copy_database(
    database: PostgresDatabase, target: Path, key: Path | None, disk: Disk
) -> None:
    """Copy the served store of ``database`` into the directory ``target``, and compare the copy.

    ``key`` is a sealed key for the copy. Coordinators may run meanwhile.
    """
    for _ in range(_ATTEMPTS):
        raw = None if key is None else _read_key(disk, key)
        whole, index = await read_database(database)
        # The sealed key has a place that its coordinator has seen. If the key has not changed, the
        # records reach at least to that place.
        if key is None or raw == _read_key(disk, key):
            break
    else:
        raise UnavailableError(
            f"{SEALED_KEY} changed during each of {_ATTEMPTS} reads", hint="try again"
        )
    await _fill(target, disk, whole, index)
    # The order matters: a log is copied after its journal.
    await copy_log_out(disk, database, target)
    if raw is not None:
        disk.write(target / SEALED_KEY, raw)


def _only_key(path: Path, disk: Disk) -> bytes:
    """Return the bytes of ``sealed_key`` in ``path``; refuse other parts of a store."""
    present = list_store_files(path, disk)
    others = [name for name in (*present, TOMBSTONE) if name != SEALED_KEY]
    others = [name for name in others if os.path.lexists(path / name)]
    if others:
        raise NotEmptyError(
            f"the directory of --data-dir has a state of its own: {', '.join(others)}",
            hint="name the --data-dir of a coordinator that served the database",
        )
    return _read_key(disk, path / SEALED_KEY)


def _read_key(disk: Disk, path: Path) -> bytes:
    raw = disk.read(path, limit=sealing.FILE_LIMIT)
    if raw is None:
        raise NoKeyError(
            f"{path.parent.name} has no {SEALED_KEY}, so the store could not be opened there",
            hint="name the --data-dir of a coordinator that served the database; if there is none,"
            " run keyhouse backup and restore, then recover with the recovery keys",
        )
    sealing.parse(raw)
    return raw


async def _fill(place: Path, disk: Disk, whole: Whole, index: bytes) -> None:
    """Write the journal ``whole`` and its recovery index to the directory ``place``, synced.

    The journal is read and compared.
    """
    journal = place / JOURNAL
    store = await SqliteStore.open(journal, step=disk.step, fence=disk.fence, synced=False)
    try:
        await store.begin_epoch(None, whole.start, whole.records)
        if await read_whole(store) != whole:
            raise StoreDamagedError(
                f"the records in {JOURNAL} are not the records that were copied",
                hint="check the disk of the directory, then repeat the move",
            )
    finally:
        await store.close()
    file = IndexFile(whole.start.store_id, whole.start.epoch, index)
    await off_loop(disk.write, place / INDEX, file.encode())
    await off_loop(disk.sync_file, journal)


async def _end(database: PostgresDatabase, whole: Whole, to: str) -> None:
    try:
        await end_as_moved(database, whole.start.store_id, whole.head, to=to)
    except StoreConflictError:
        raise StoreLockedError(
            "a coordinator wrote to the database during the move",
            hint="stop all coordinators that serve the database, then repeat the move",
        ) from None


class DatabaseInUseError(RefusedError):
    """The database already has a store."""

    code = "database-in-use"


class MovedIn(msgspec.Struct, frozen=True):
    """The moved store, and the archive of the former content of the directory."""

    store_id: bytes
    position: Position
    archive: str  # name of the directory under ``archive/``


async def move_in(path: Path, database: PostgresDatabase) -> MovedIn:
    """Move the store in the directory ``path`` to ``database``; no coordinator may use it.

    Returns after the database serves the store. After ``DatabaseInUseError``, or an error for an
    incomplete directory as at a start, nothing has changed.
    """
    disk = Disk()
    lock = await off_loop(acquire, path, disk)
    try:
        present = await off_loop(list_store_files, path, disk)
        if JOURNAL not in present:
            raise empty_journal("missing")
        if (ended := await off_loop(see_tombstone, path)) is not None:
            raise ended_but_there(ended, JOURNAL)
        await _require_unused(database)
        whole, index = await _read_directory(path, disk)
        await copy_log_in(disk, path, database)
        await _write(database.url, whole, index)
        archive = await off_loop(_archive, path, disk, whole.start.epoch)
        await database.make_current(whole.start.store_id, before=None)
        await off_loop(_restore_key, path, disk, archive)
    finally:
        lock.release()
    return MovedIn(whole.start.store_id, whole.head, archive)


async def _require_unused(database: PostgresDatabase) -> None:
    if await database.current() is not None:
        raise DatabaseInUseError(
            "the database already has a store",
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
    """Write ``whole`` and its recovery index to the database; read and compare the records.

    The records of an earlier attempt are replaced.
    """
    target = await PostgresStore.open(url, whole.start.store_id)
    try:
        beside = Beside(index)
        await target.begin_epoch(await target.settle(), whole.start, whole.records, beside)
        if await read_whole(target) != whole:
            raise BrokenError(
                "the records in the database are not the records that were copied",
                hint="check the database, then move the store again; the directory is unchanged",
            )
    finally:
        await target.close()


def _archive(path: Path, disk: Disk, epoch: int) -> str:
    """Move the store in ``path`` to ``archive/``, durably; return its name there.

    ``epoch``: the epoch of its journal.
    """
    settle_index(disk, path, epoch)
    before = archived_names(path)
    name = replacement.archive_name(disk, path, datetime.now(UTC))
    replacement.prepare(disk, path, name, clear=True)
    replacement.commit(disk, path)
    replacement.finish(disk, path)
    (archived,) = set(archived_names(path)).difference(before)
    return archived


def _restore_key(path: Path, disk: Disk, archive: str) -> None:
    raw = disk.read(path / ARCHIVE / archive / SEALED_KEY, limit=FILE_LIMIT)
    if raw is not None:
        disk.write(path / SEALED_KEY, raw)


_END = """
UPDATE keyhouse.head SET ended = $5
WHERE store_id = $1 AND epoch = $2 AND sequence = $3 AND chain = $4 AND ended = ''
RETURNING pg_notify('keyhouse', '')"""
_RESUME = "UPDATE keyhouse.head SET ended = '' WHERE store_id = $1 AND ended = $2"


async def end_as_moved(
    database: PostgresDatabase, store_id: bytes, at: Position, *, to: str
) -> None:
    """End the store in the database, because its records have moved.

    ``at``: the last place in the store. ``to``: the new location of the records, as text.

    Raises ``StoreConflictError`` if the last record of the store is not at ``at``, and
    ``OutcomeUnknownError`` if the database does not confirm the end.
    """
    async with database.asking() as connection:
        with outcome_unknown():
            done = await connection.execute(
                _END, store_id, at.epoch, at.sequence, at.chain, f"moved to {to}"
            )
    if done != "UPDATE 1":
        raise StoreConflictError(
            "the last records of the database have changed since they were read"
        )


async def resume_move(database: PostgresDatabase, store_id: bytes, *, to: str) -> None:
    """Reopen the store in the database if the store has ended by a move to ``to``."""
    async with database.asking() as connection:
        await connection.execute(_RESUME, store_id, f"moved to {to}")

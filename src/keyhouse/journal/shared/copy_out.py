"""Copies of the store in a database: a directory that takes its place, or a backup.

The data key is not needed. A move leaves no two stores that could be written: the directory's is
complete and compared before the one in the database ends, and does not count until then. A crash
between leaves neither: the move can be repeated, to the same directory.
"""

import hashlib
import os
from datetime import UTC, datetime
from pathlib import Path

from keyhouse.base.errors import RefusedError, UnavailableError
from keyhouse.base.secret import Secret
from keyhouse.journal.directory import replacement, sealing
from keyhouse.journal.directory.acquire import acquire, survey
from keyhouse.journal.directory.disk import Disk, off_loop
from keyhouse.journal.directory.found import mixed
from keyhouse.journal.directory.index_file import IndexFile
from keyhouse.journal.directory.inspect import see_journal
from keyhouse.journal.directory.layout import INDEX, JOURNAL, SEALED_KEY, TOMBSTONE
from keyhouse.journal.offline.archive import require_whole
from keyhouse.journal.offline.backup import NotEmptyError, Verify, make_backup_of
from keyhouse.journal.shared.log_parts import copy_log_out
from keyhouse.journal.shared.whole import Whole, read_database, read_whole
from keyhouse.journal.store.postgres_database import PostgresDatabase
from keyhouse.journal.store.protocol import StoreConflictError, StoreDamagedError, StoreLockedError
from keyhouse.journal.store.sqlite import SqliteStore

_ATTEMPTS = 8  # to read a sealed key that its coordinator replaces meanwhile


class NoKeyError(RefusedError):
    """A directory without the sealed key that would open the store there."""

    code = "no-sealed-key"


async def move_out(url: Secret, database: PostgresDatabase, path: Path, verify: Verify) -> bytes:
    """Move the store in ``database``, which no coordinator serves, to the directory ``path``.

    That has been the directory of a coordinator that served it: only ``sealed_key`` is there.
    Returns the store's id. Raises ``StoreLockedError``, ``NotEmptyError``,
    ``NoKeyError``, ``OutcomeUnknownError`` (then repeat it), and refusals of a store that is
    damaged: then nothing has changed.
    """
    disk = Disk()
    lock = await off_loop(acquire, path, disk)
    try:
        key = await off_loop(_only_key, path, disk)
        to = hashlib.sha256(key).hexdigest()
        store_id = sealing.parse(key).store_id
        await database.resume_move(store_id, to=to)
        if await database.others_present():
            raise StoreLockedError(
                "a coordinator serves the database", hint="stop all that serve it first"
            )
        whole, index = await read_database(url, database)
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
    url: Secret, database: PostgresDatabase, target: Path, key: Path | None, verify: Verify
) -> None:
    """Make the directory ``target``, a backup of the store that ``database`` serves, or nothing.

    ``key``: the ``sealed_key`` of a coordinator that serves it, for the backup; without one only
    the recovery keys open it. Coordinators may run meanwhile. Raises as ``make_backup``.
    """

    async def fill(disk: Disk) -> None:
        await copy_database(url, database, target, key, disk)

    await make_backup_of(fill, target, verify)


async def copy_database(
    url: Secret, database: PostgresDatabase, target: Path, key: Path | None, disk: Disk
) -> None:
    """Fill the directory ``target`` with the store that ``database`` serves, compared with it.

    ``key``: a sealed key to go with it; coordinators may run meanwhile.
    """
    for _ in range(_ATTEMPTS):
        raw = None if key is None else _read_key(disk, key)
        whole, index = await read_database(url, database)
        # It has the place that its coordinator has seen: never one behind the records.
        if key is None or raw == _read_key(disk, key):
            break
    else:
        raise UnavailableError(f"{SEALED_KEY} changes all the time", hint="try again")
    await _fill(target, disk, whole, index)
    await copy_log_out(disk, database, target)  # after the journal
    if raw is not None:
        disk.write(target / SEALED_KEY, raw)


def _only_key(path: Path, disk: Disk) -> bytes:
    """Return the bytes of ``sealed_key`` in ``path``, where there is nothing else of a store."""
    present = survey(path, disk)
    others = [name for name in (*present, TOMBSTONE) if name != SEALED_KEY]
    others = [name for name in others if os.path.lexists(path / name)]
    if others:
        raise NotEmptyError(
            f"the directory has a state of its own: {', '.join(others)}",
            hint="name the --data-dir of a coordinator that served the database",
        )
    return _read_key(disk, path / SEALED_KEY)


def _read_key(disk: Disk, path: Path) -> bytes:
    raw = disk.read(path, limit=sealing.FILE_LIMIT)
    if raw is None:
        raise NoKeyError(
            f"{path.parent.name} has no {SEALED_KEY}, so the store could not be opened there",
            hint="name the --data-dir of a coordinator that served the database; without one,"
            " keyhouse backup and restore, then recover with the recovery keys",
        )
    sealing.parse(raw)
    return raw


async def _fill(place: Path, disk: Disk, whole: Whole, index: bytes) -> None:
    """Put journal and recovery index in the directory ``place``, synced, and compare."""
    journal = place / JOURNAL
    store = await SqliteStore.open(journal, step=disk.step, fence=disk.fence, synced=False)
    try:
        await store.begin_epoch(None, whole.start, whole.records)
        if await read_whole(store) != whole:
            raise StoreDamagedError(
                f"{JOURNAL} does not hold what was written to it", hint="look at its disk"
            )
    finally:
        await store.close()
    file = IndexFile(whole.start.store_id, whole.start.epoch, index)
    await off_loop(disk.write, place / INDEX, file.encode())
    await off_loop(disk.sync_file, journal)


async def _end(database: PostgresDatabase, whole: Whole, to: str) -> None:
    try:
        await database.end_as_moved(whole.start.store_id, whole.head, to=to)
    except StoreConflictError:
        raise StoreLockedError(
            "the database was written to meanwhile", hint="stop all coordinators that serve it"
        ) from None

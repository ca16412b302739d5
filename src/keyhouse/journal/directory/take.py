"""Taking a state directory: one process, private files, nothing left half done."""

import os
from pathlib import Path

from keyhouse.journal.directory import replacement as succession
from keyhouse.journal.directory.disk import Disk
from keyhouse.journal.directory.lock import DirectoryLock, unused
from keyhouse.journal.directory.replacement import INDEX, JOURNAL, NEXT_INDEX, SEALED_KEY
from keyhouse.journal.directory.tombstone import TOMBSTONE
from keyhouse.journal.store.protocol import StoreDamaged, StoreLocked, StoreUnreadable

__all__ = ["STORE_FILES", "check_state_directory", "enter", "refuse_rollback_journal", "survey"]

STORE_FILES = (SEALED_KEY, INDEX, NEXT_INDEX, JOURNAL, f"{JOURNAL}-wal", f"{JOURNAL}-shm")
"""The names that belong to a store."""

_ROLLBACK_JOURNAL = f"{JOURNAL}-journal"


def enter(path: Path, disk: Disk) -> DirectoryLock:
    """Return the lock of ``path``, which is made if missing; what a crash interrupted is finished.

    Raises ``StoreLocked``, ``InsecureFile``, ``StoreDamaged`` or ``StoreUnreadable``.
    """
    if not os.path.lexists(path):
        disk.make_directory(path)
        disk.sync_directory(path.parent)
    disk.check_directory(path)
    lock = DirectoryLock(path, disk)
    try:
        survey(path, disk)
    except BaseException:
        lock.release()
        raise
    return lock


def survey(path: Path, disk: Disk) -> list[str]:
    """Finish what a crash interrupted; return which of our files are there, each checked."""
    succession.finish(disk, path)
    for name in (SEALED_KEY, INDEX, NEXT_INDEX):
        disk.remove(path / f"{name}.tmp")
    refuse_rollback_journal(path)
    return [name for name in STORE_FILES if disk.check_file(path / name)]


def refuse_rollback_journal(path: Path) -> None:
    """Raise ``StoreDamaged`` if there is one: SQLite would apply whatever it says to journal.db."""
    if os.path.lexists(path / _ROLLBACK_JOURNAL):  # Keyhouse never leaves one
        raise StoreDamaged(
            f"{_ROLLBACK_JOURNAL} was not made by Keyhouse",
            hint="restore the state directory from a backup",
        )


def check_state_directory(path: Path) -> str:
    """Refuse what a start would refuse of the names in ``path``; return who is using it, if anyone.

    Takes no lock that lasts and writes nothing; the contents of the files are not looked at.
    """
    disk = Disk()
    if not os.path.lexists(path):
        _refuse_unwritable(path.parent)
        return ""
    disk.check_directory(path)
    refuse_rollback_journal(path)
    _refuse_unwritable(path)
    for name in (*STORE_FILES, TOMBSTONE):
        disk.check_file(path / name)
    try:
        with unused(path):
            return ""
    except StoreLocked as locked:
        return locked.message


def _refuse_unwritable(path: Path) -> None:
    if not os.access(path, os.W_OK | os.X_OK):
        raise StoreUnreadable(
            f"{path.name or path} is missing or cannot be written to",
            hint="make the directory, or name another with --data-dir",
        )

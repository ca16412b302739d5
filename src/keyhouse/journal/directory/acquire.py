"""Acquiring a state directory: one process, private files, interrupted changes completed."""

import os
from pathlib import Path
from typing import Final

from keyhouse.base.errors import BrokenError
from keyhouse.journal.directory import replacement
from keyhouse.journal.directory.disk import (
    INDEX,
    JOURNAL,
    NEXT_INDEX,
    ROLLBACK_JOURNAL,
    SEALED_KEY,
    STORE_FILES,
    TOMBSTONE,
    Disk,
)
from keyhouse.journal.directory.inspect import shows_users
from keyhouse.journal.directory.journal_copy import OWN_FILES
from keyhouse.journal.directory.lock import DirectoryLock, unused
from keyhouse.journal.store.protocol import (
    StoreDamagedError,
    StoreLockedError,
    StoreUnreadableError,
)

UNSEEN_USERS: Final = (
    "whether a coordinator uses it cannot be seen: its platform, gramine, keeps locks to itself"
)
"""What is said of a directory whose lock shows nobody."""


def acquire(path: Path, disk: Disk) -> DirectoryLock:
    """Return the lock of ``path``, which is created if missing. Interrupted changes are completed.

    Raises ``StoreLockedError``, ``InsecureFileError``, ``StoreDamagedError`` or
    ``StoreUnreadableError``.
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
    """Complete what a crash interrupted; return which files of a store are there, each checked."""
    replacement.finish(disk, path)
    for name in (*(f"{each}.tmp" for each in (SEALED_KEY, INDEX, NEXT_INDEX)), *OWN_FILES):
        disk.remove(path / name)
    refuse_rollback_journal(path)
    return [name for name in STORE_FILES if disk.check_file(path / name)]


def refuse_rollback_journal(path: Path) -> None:
    """Raise ``StoreDamagedError`` if there is one: SQLite would apply it to journal.db as is."""
    if os.path.lexists(path / ROLLBACK_JOURNAL):  # Keyhouse never leaves one
        raise StoreDamagedError(
            f"{ROLLBACK_JOURNAL} was not made by Keyhouse",
            hint="restore the state directory from a backup",
        )


def require_no_state(path: Path) -> None:
    """Raise ``BrokenError`` if ``path`` holds a state: that of a database is kept elsewhere."""
    for name in (JOURNAL, INDEX, TOMBSTONE):
        if os.path.lexists(path / name):
            raise BrokenError(
                f"the directory has {name}, a state of its own",
                hint="with --store name another --data-dir; or serve it without --store",
            )


def check_state_directory(path: Path) -> str:
    """Check the files in ``path`` as a start does; return a message if it may be in use, else "".

    Keeps no lock and writes nothing; the contents of the files are not read.
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
            return "" if shows_users(path) else UNSEEN_USERS
    except StoreLockedError as locked:
        return locked.message


def _refuse_unwritable(path: Path) -> None:
    if not os.access(path, os.W_OK | os.X_OK):
        raise StoreUnreadableError(
            f"{path.name or path} is missing or cannot be written to",
            hint="make the directory, or name another with --data-dir",
        )

"""Acquiring a state directory: one process, private files, interrupted changes completed."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from keyhouse.journal.directory import replacement
from keyhouse.journal.directory.disk import Disk
from keyhouse.journal.directory.layout import (
    INDEX,
    NEXT_INDEX,
    ROLLBACK_JOURNAL,
    SEALED_KEY,
    STORE_FILES,
    TOMBSTONE,
)
from keyhouse.journal.store.protocol import (
    StoreDamagedError,
    StoreLockedError,
    StoreUnreadableError,
)

__all__ = [
    "DirectoryLock",
    "acquire",
    "check_state_directory",
    "refuse_rollback_journal",
    "survey",
    "unused",
]

_NAME = "lock"
_LONGEST_PID = 20


class DirectoryLock:
    """Locks a state directory until ``release``, or until the process ends in any way."""

    def __init__(self, directory: Path, disk: Disk) -> None:
        """Take the lock.

        Raise ``StoreLockedError``, which names the other process, if it is taken.
        """
        path = directory / _NAME
        disk.check_file(path)
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
        try:
            self._handle = os.open(path, flags, 0o600)
        except OSError:
            raise _unopened() from None
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(self._handle, 0)
            os.pwrite(self._handle, str(os.getpid()).encode("ascii"), 0)
        except BlockingIOError:
            locked = _in_use(self._handle)
            os.close(self._handle)
            raise locked from None
        except OSError:
            os.close(self._handle)
            raise StoreUnreadableError(
                "the file lock cannot be written", hint="see its disk"
            ) from None

    def release(self) -> None:
        """Release the lock."""
        os.close(self._handle)


@contextmanager
def unused(directory: Path) -> Iterator[None]:
    """Keep coordinators out of a state directory meanwhile, without writing to it.

    Raises ``StoreLockedError``, which names the process, if a coordinator has it. A directory in
    which no coordinator ever started has no lock file, and is not locked.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        handle = os.open(directory / _NAME, flags)
    except FileNotFoundError:
        yield
        return
    except OSError:
        raise _unopened() from None
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            raise _in_use(handle) from None
        yield
    finally:
        os.close(handle)


def _unopened() -> StoreUnreadableError:
    return StoreUnreadableError(
        "the file lock cannot be opened", hint="look at the state directory"
    )


def _in_use(handle: int) -> StoreLockedError:
    written = os.pread(handle, _LONGEST_PID, 0)
    number = written.decode("ascii") if written.isdigit() else ""
    # ``unused`` does not write its number: the number in the file may be of an ended process.
    known = number and Path("/proc", number).exists()
    return StoreLockedError(
        f"the state directory is in use by {f'process {number}' if known else 'another process'}",
        hint="stop that process, or use a directory of its own for each coordinator",
    )


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
    for name in (SEALED_KEY, INDEX, NEXT_INDEX):
        disk.remove(path / f"{name}.tmp")
    refuse_rollback_journal(path)
    return [name for name in STORE_FILES if disk.check_file(path / name)]


def refuse_rollback_journal(path: Path) -> None:
    """Raise ``StoreDamagedError`` if there is one: SQLite would apply it to journal.db as is."""
    if os.path.lexists(path / ROLLBACK_JOURNAL):  # Keyhouse never leaves one
        raise StoreDamagedError(
            f"{ROLLBACK_JOURNAL} was not made by Keyhouse",
            hint="restore the state directory from a backup",
        )


def check_state_directory(path: Path) -> str:
    """Check the files in ``path`` as a start does; return a message if a process uses it, else "".

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
            return ""
    except StoreLockedError as locked:
        return locked.message


def _refuse_unwritable(path: Path) -> None:
    if not os.access(path, os.W_OK | os.X_OK):
        raise StoreUnreadableError(
            f"{path.name or path} is missing or cannot be written to",
            hint="make the directory, or name another with --data-dir",
        )

"""Acquiring a state directory: one process, private files, interrupted changes completed.

The file ``lock`` says which process has the directory, and others find out, each in its way::

    PID NONCE

PID is decimal, for messages. NONCE is 32 hex digits, made by each process that takes the directory.

``flock`` keeps processes apart that see each other's locks. Enclaves do not, nor do the clients of
some shared file systems. So a process writes its nonce before it reads the store, and reads the
file again after each commit, before anything is answered. If it still finds its own, every later
process has yet to read the store, and finds the commit there. If not, it has been superseded: it
answers nothing, changes nothing more, and stops.

The file is written in place, which a full disk does not prevent, and opened by its name each time,
as an encrypted file system may keep what an open one had. It is not synced: a power loss ends all
processes that it is about. Anything but the own nonce, also half of another one, counts as
superseded.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from keyhouse.base.errors import BrokenError
from keyhouse.journal.directory import replacement
from keyhouse.journal.directory.disk import (
    INDEX,
    JOURNAL,
    LOCK,
    NEXT_INDEX,
    ROLLBACK_JOURNAL,
    SEALED_KEY,
    STORE_FILES,
    TOMBSTONE,
    Disk,
)
from keyhouse.journal.directory.inspect import shows_users
from keyhouse.journal.directory.journal_copy import OWN_FILES
from keyhouse.journal.store.protocol import (
    StoreDamagedError,
    StoreLockedError,
    StoreUnreadableError,
    SupersededError,
)

_LONGEST: Final = 64  # bytes
_FLAGS: Final = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

UNSEEN_USERS: Final = (
    "whether a coordinator uses it cannot be seen: its platform, gramine, keeps locks to itself"
)
"""What is said of a directory whose lock shows nobody."""


class DirectoryLock:
    """Locks a state directory until ``release``, or until the process ends in any way."""

    def __init__(self, directory: Path, disk: Disk) -> None:
        """Take the lock; ``disk`` changes nothing any more once another process has taken it.

        Raise ``StoreLockedError``, which names the other process, if its lock is seen.
        """
        self._path: Final = str(directory / LOCK)
        self._content: Final = f"{os.getpid()} {os.urandom(16).hex()}\n".encode("ascii")
        disk.check_file(directory / LOCK)
        try:
            self._handle = os.open(self._path, os.O_RDWR | os.O_CREAT | _FLAGS, 0o600)
        except OSError:
            raise _unopened() from None
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(self._handle, 0)
            os.pwrite(self._handle, self._content, 0)
        except BlockingIOError:
            locked = _in_use(self._handle)
            os.close(self._handle)
            raise locked from None
        except OSError:
            os.close(self._handle)
            raise StoreUnreadableError(
                "the file lock cannot be written", hint="see its disk"
            ) from None
        disk.fence = self.require

    def require(self) -> None:
        """Raise ``SupersededError`` unless this process is known to have the directory still."""
        if self._written() != self._content:
            raise SupersededError(
                "another process has taken the state directory: this one stops, and what it did not"
                " answer may or may not have happened",
                hint="run one coordinator for each state directory",
            )

    def release(self) -> None:
        """Release the lock."""
        os.close(self._handle)

    def _written(self) -> bytes:
        try:
            handle = os.open(self._path, os.O_RDONLY | _FLAGS)
            try:
                return os.pread(handle, _LONGEST + 1, 0)
            finally:
                os.close(handle)
        except OSError:
            return b""


@contextmanager
def unused(directory: Path) -> Iterator[None]:
    """Keep coordinators out of a state directory meanwhile, without writing to it.

    Raises ``StoreLockedError``, which names the process, if a coordinator has it. A directory in
    which no coordinator ever started has no lock file, and is not locked.
    """
    try:
        handle = os.open(directory / LOCK, os.O_RDONLY | _FLAGS)
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
    written, _, _ = os.pread(handle, _LONGEST, 0).partition(b" ")
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
        disk.sync_name(path)
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

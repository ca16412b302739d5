"""Acquires a state directory: a single process, private files, interrupted changes completed.

The file ``lock`` names the process that holds the directory::

    PID NONCE

PID is decimal, for messages. NONCE is 32 hex digits, made by each process that acquires the
directory.

``flock`` separates processes that see each other's locks. Enclaves and the clients of some shared
file systems do not see these locks. So a process also writes a nonce before the first read of the
store. The process reads the file again after each commit, before it answers any request. If the
file still has the nonce of this process, every later process has yet to read the store, and will
find the commit there. If not, this process is superseded: it answers nothing, changes nothing more,
and stops.

The file is written in place, which works on a full disk. Each access opens the name, because an
encrypted file system may cache the content of an open file. The file is not synced, because a
power loss ends all processes concerned. If the file has anything except the own line, the process
is superseded.
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

_LONGEST: Final = 64  # bytes, chosen: the file has a process id and 32 hex digits
_FLAGS: Final = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

UNSEEN_USERS: Final = (
    "whether a coordinator uses it cannot be seen: its platform, gramine, keeps locks to itself"
)
"""The message about a directory with a lock that shows no process."""


class DirectoryLock:
    """Locks a state directory until ``release``, or until the process ends in any way."""

    def __init__(self, directory: Path, disk: Disk) -> None:
        """Acquire the lock. From then on, ``disk`` checks the lock before each durable step.

        Raises ``StoreLockedError`` if a process that this kernel sees has the lock. A process
        elsewhere, such as in another enclave, can acquire the directory at the same time. Then the
        content of the lock file changes, and ``disk`` changes nothing more.
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
                "the file lock in the state directory cannot be written",
                hint="check the disk of the state directory",
            ) from None
        disk.fence = self.require

    def require(self) -> None:
        """Raise ``SupersededError`` unless this process provably still holds the directory."""
        if self._written() != self._content:
            raise SupersededError(
                "another process has taken the state directory, so this process stops; changes"
                " without an answer may or may not have happened",
                hint="run only one coordinator for each state directory",
            )

    def release(self) -> None:
        """Release the lock of the state directory."""
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
    """Keep coordinators out of a state directory during the context, without writing to it.

    Raises ``StoreLockedError``, which names the process, if a coordinator holds the directory. If
    no coordinator has used the directory yet, there is no lock file, and nothing is locked.
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
        "the file lock in the state directory cannot be opened",
        hint="check the permissions of the state directory",
    )


def _in_use(handle: int) -> StoreLockedError:
    written, _, _ = os.pread(handle, _LONGEST, 0).partition(b" ")
    number = written.decode("ascii") if written.isdigit() else ""
    # ``unused`` writes no number, so the number may belong to a process that has ended.
    known = number and Path("/proc", number).exists()
    return StoreLockedError(
        f"the state directory is in use by {f'process {number}' if known else 'another process'}",
        hint="stop that process, or use a separate directory for each coordinator",
    )


def acquire(path: Path, disk: Disk) -> DirectoryLock:
    """Return the lock of ``path``. Creates a missing directory and completes interrupted changes.

    Raises ``StoreLockedError``, ``InsecureFileError``, ``StoreDamagedError`` or
    ``StoreUnreadableError``.
    """
    if not os.path.lexists(path):
        disk.make_directory(path)
        disk.sync_name(path)
    disk.check_directory(path)
    lock = DirectoryLock(path, disk)
    try:
        list_store_files(path, disk)
    except BaseException:
        lock.release()
        raise
    return lock


def list_store_files(path: Path, disk: Disk) -> list[str]:
    """Complete the changes that a crash interrupted. Return the names of the store's files.

    Each file is checked as in ``Disk.check_file``.
    """
    replacement.finish(disk, path)
    for name in (*(f"{each}.tmp" for each in (SEALED_KEY, INDEX, NEXT_INDEX)), *OWN_FILES):
        disk.remove(path / name)
    refuse_rollback_journal(path)
    return [name for name in STORE_FILES if disk.check_file(path / name)]


def refuse_rollback_journal(path: Path) -> None:
    """Raise ``StoreDamagedError`` for a rollback journal, because SQLite would apply it."""
    if os.path.lexists(path / ROLLBACK_JOURNAL):  # Keyhouse never leaves one
        raise StoreDamagedError(
            f"the state directory has {ROLLBACK_JOURNAL}, a file that Keyhouse never leaves there",
            hint="restore the state directory from a backup",
        )


def require_no_state(path: Path) -> None:
    """Raise ``BrokenError`` if the directory ``path`` has a state.

    The caller has the state of its deployment in a database.
    """
    for name in (JOURNAL, INDEX, TOMBSTONE):
        if os.path.lexists(path / name):
            raise BrokenError(
                f"the directory of --data-dir has {name}, so it has a state of its own; with"
                " --store it must not have a state",
                hint="name another directory with --data-dir, or start without --store",
            )


def check_state_directory(path: Path) -> str:
    """Check the files in the directory ``path`` as a start does.

    Return a message if a process uses the directory now, or if such a use cannot be excluded;
    otherwise return "". The function writes nothing, does not read the contents of the files, and
    holds no lock afterwards.
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
            f"the directory {path.name or path} is missing or cannot be written to",
            hint="create the directory, or name another directory with --data-dir",
        )

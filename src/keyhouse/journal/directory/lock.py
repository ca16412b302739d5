"""The file ``lock``: one process has a state directory, and others find out, each in its way.

::

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

from keyhouse.journal.directory.disk import LOCK, Disk
from keyhouse.journal.store.protocol import StoreLockedError, StoreUnreadableError, SupersededError

_LONGEST: Final = 64  # bytes
_FLAGS: Final = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


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

"""One process per state directory."""

import fcntl
import os
from pathlib import Path

from keyhouse.journal.disk import Disk
from keyhouse.journal.store import StoreLocked, StoreUnreadable

__all__ = ["DirectoryLock"]

_NAME = "lock"
_LONGEST_PID = 20


class DirectoryLock:
    """Holds a state directory until ``release``, or until the process ends however it ends."""

    def __init__(self, directory: Path, disk: Disk) -> None:
        """Take the lock; raise ``StoreLocked``, which names the other process, if it is taken."""
        path = directory / _NAME
        disk.check_file(path)
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            self._handle = os.open(path, flags, 0o600)
        except OSError:
            raise StoreUnreadable(
                "the file lock cannot be opened", hint="look at the state directory"
            ) from None
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(self._handle, 0)
            os.pwrite(self._handle, str(os.getpid()).encode("ascii"), 0)
        except BlockingIOError:
            holder = self._holder()
            os.close(self._handle)
            raise StoreLocked(
                f"the state directory is in use by {holder}",
                hint="stop that process, or use a directory of its own for each coordinator",
            ) from None
        except OSError:
            os.close(self._handle)
            raise StoreUnreadable("the file lock cannot be written", hint="see its disk") from None

    def release(self) -> None:
        """Let others have the directory."""
        os.close(self._handle)

    def _holder(self) -> str:
        written = os.pread(self._handle, _LONGEST_PID, 0)
        return f"process {written.decode('ascii')}" if written.isdigit() else "another process"

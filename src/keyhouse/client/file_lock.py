"""The lock for changes of a file that several processes write."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_LOCK: Final = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock for changes of the file ``path``. The lock file is ``<path>.lock``."""
    handle = os.open(path.with_name(f"{path.name}.lock"), _LOCK, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)

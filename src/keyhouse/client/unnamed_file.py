"""Files without a name, for programs and libraries that take secrets from files alone.

Such a file (``memfd``) is memory, gone when it is closed; nothing is ever written to a disk.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["path_of", "unnamed_file"]


@contextmanager
def unnamed_file(content: bytes) -> Iterator[int]:
    """Give the handle of a file with ``content``; a started program may be given it."""
    handle = os.memfd_create("keyhouse-client", os.MFD_CLOEXEC)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
        file.flush()
        yield handle


def path_of(handle: int) -> str:
    """Return the path by which only a process that has ``handle`` opens its file."""
    return f"/proc/self/fd/{handle}"

"""Openers for ``open(..., opener=...)``: open files that another user may have placed.

Python passes the flags of the mode, with ``O_CLOEXEC``, to an opener. If ``open`` then refuses the
file, for example a directory, ``open`` closes the handle. ``os.fdopen`` would leave it open.
"""

import os


def without_waiting(path: str, flags: int) -> int:
    """Open ``path``. A FIFO does not block. A new file has the mode 0600."""
    return os.open(path, flags | os.O_NONBLOCK, 0o600)


def without_links(path: str, flags: int) -> int:
    """Open ``path`` as ``without_waiting`` does, and refuse a symbolic link as its last step."""
    return without_waiting(path, flags | os.O_NOFOLLOW)

"""Openers for ``open(..., opener=...)`` that do not wait for a FIFO and can refuse a symbolic link.

Use them where another user may have placed the file. ``os.open`` with ``os.fdopen`` would open the
same file. But if the file is a directory, ``os.fdopen`` raises and leaves the handle open, and
``open`` closes the handle.
"""

import os


def without_waiting(path: str, flags: int) -> int:
    """Open ``path``. A FIFO does not block. A new file has the mode 0600."""
    return os.open(path, flags | os.O_NONBLOCK, 0o600)


def without_links(path: str, flags: int) -> int:
    """Open ``path`` as ``without_waiting`` does, and refuse a symbolic link as its last step."""
    return without_waiting(path, flags | os.O_NOFOLLOW)

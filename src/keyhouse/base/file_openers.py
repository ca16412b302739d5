"""Openers for ``open(..., opener=...)`` that do not wait for a FIFO and can refuse a symbolic link.

Use these openers for a file that an untrusted user may have placed. ``os.open`` and ``os.fdopen``
would open the same file, but leave the handle open if the file is a directory. ``open`` closes it.
"""

import os


def without_waiting(path: str, flags: int) -> int:
    """Return a handle of ``path`` without waiting for a FIFO. A new file has the mode 0600.

    ``flags``: as for ``os.open``.
    """
    return os.open(path, flags | os.O_NONBLOCK, 0o600)


def without_links(path: str, flags: int) -> int:
    """Return a handle as ``without_waiting`` does, but refuse a ``path`` that is a symbolic link.

    Links among the directories of ``path`` are followed.
    """
    return without_waiting(path, flags | os.O_NOFOLLOW)

"""For ``open(..., opener=...)``: how files are opened that others may have put in place.

Python gives an opener the flags of the mode, with ``O_CLOEXEC``. ``open`` closes the handle of what
it refuses, such as a directory; ``os.fdopen`` leaves that one open.
"""

import os


def without_waiting(path: str, flags: int) -> int:
    """Open ``path``: a pipe without waiting for its other end, a new file with mode 0600."""
    return os.open(path, flags | os.O_NONBLOCK, 0o600)


def without_links(path: str, flags: int) -> int:
    """Open ``path`` in the same way, and refuse a symbolic link in its last step."""
    return without_waiting(path, flags | os.O_NOFOLLOW)

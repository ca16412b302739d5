"""Text that is safe to show: it cannot forge a line or control a terminal, and names no path."""

import os
from typing import Final

_LONGEST: Final = 2_000  # characters


def printable(text: str) -> str:
    """Return ``text`` with everything but printable characters and spaces escaped."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
        for char in text
    )


def shown(text: str) -> str:
    """Return a peer's ``text`` as ``printable`` does, at most its first 2,000 characters."""
    return printable(text[:_LONGEST])


def os_reason(error: OSError) -> str:
    """Return the operating system's reason alone, in lower case: no path and no number."""
    return os.strerror(error.errno).lower() if error.errno else "unknown reason"

"""Text that is safe to show: it cannot forge a line or control a terminal, and names no path."""

import json
import os
import re
from typing import Final

Place = tuple[str | int, ...]
"""Steps from the outside, keys and indexes: ``("Marbles", "web", "TLS", 0)``."""

_PLAIN = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_SHOWN = 100  # characters of a key that are shown; the rest would only fill logs
_LONGEST: Final = 2_000  # characters


def at(*steps: str | int) -> str:
    """Return the path of a place, from the outermost step: a ``str`` is a key, an ``int`` an index.

    Keys that are not plain words are quoted as JSON strings (``Secrets["my key"].Size``); whatever
    does not print is escaped, and of very long keys only the beginning is shown.
    """
    path = ""
    for step in steps:
        if isinstance(step, int):
            path += f"[{step}]"
        elif _PLAIN.fullmatch(step) and len(step) <= _SHOWN:
            path += f".{step}" if path else step
        else:
            path += f"[{quoted(step)}]"
    return path


def quoted(text: str) -> str:
    """Return ``text`` as a JSON string that prints safely: at most 100 characters of it."""
    shown = beginning(text)
    return json.dumps(shown, ensure_ascii=not shown.isprintable())


def beginning(text: str, most: int = _SHOWN) -> str:
    """Return ``text``, of a long one the first ``most`` characters and dots."""
    return text if len(text) <= most else text[:most] + "..."


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

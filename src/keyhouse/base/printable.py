"""Make text safe for display: it can neither forge a line nor control a terminal."""

import json
import os
import re
from typing import Final

Place = tuple[str | int, ...]
"""Keys and indexes, from the outermost: ``("Marbles", "web", "TLS", 0)``."""

_PLAIN = r"[A-Za-z0-9_-]+"
# Characters. A caller chooses keys and messages; longer text would only fill logs.
_SHOWN = 100
_LONGEST: Final = 2_000  # characters


def at(*steps: str | int) -> str:
    """Return the text of a path in a document from its steps: a ``str`` key, or an ``int`` index.

    Keys that are not plain words are quoted as JSON strings: ``Secrets["my key"].Size``.
    Unprintable characters are escaped. Keys of more than 100 characters are cut.
    """
    path = ""
    for step in steps:
        if isinstance(step, int):
            path += f"[{step}]"
        elif re.fullmatch(_PLAIN, step) and len(step) <= _SHOWN:
            path += f".{step}" if path else step
        else:
            path += f"[{quoted(step)}]"
    return path


def quoted(text: str) -> str:
    """Return the first 100 characters of ``text`` as a JSON string that is safe for display."""
    shown = beginning(text)
    return json.dumps(shown, ensure_ascii=not shown.isprintable())


def beginning(text: str, most: int = _SHOWN) -> str:
    """Return ``text``. Cut a text of more than ``most`` characters, and append dots."""
    return text if len(text) <= most else text[:most] + "..."


def printable(text: str) -> str:
    """Return ``text`` with unprintable characters escaped. Spaces stay."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
        for char in text
    )


def excerpt(text: str) -> str:
    """Return the first 2,000 characters of a peer's ``text``; escape unprintable characters."""
    return printable(text[:_LONGEST])


def os_reason(error: OSError) -> str:
    """Return the system's reason for ``error``, in lower case, without path and number."""
    return os.strerror(error.errno).lower() if error.errno else "unknown reason"

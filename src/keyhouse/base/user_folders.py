"""Where a user's files are (XDG Base Directory Specification)."""

import os
from pathlib import Path


def user_folder(variable: str, below_home: str) -> Path | None:
    """Return ``keyhouse`` in the directory that ``variable`` names, or else in one of ``HOME``.

    None: neither is an absolute path.
    """
    for name, below in ((variable, ""), ("HOME", below_home)):
        value = os.environ.get(name, "")
        if value.startswith("/"):
            return Path(value) / below / "keyhouse"
    return None

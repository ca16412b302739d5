"""Small files that a launcher is given by its own flags: whom to trust, who to be."""

from pathlib import Path
from typing import Final

from keyhouse.base.printable import os_reason
from keyhouse.launcher import LaunchRefused

__all__ = ["read_small_file"]

_LARGEST: Final = 65_536  # bytes


def read_small_file(path: Path) -> bytes:
    """Return the content of ``path``. Raises ``LaunchRefused``, also for more than 64 KiB."""
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST + 1)
    except OSError as error:
        raise LaunchRefused(f"cannot read {path}: {os_reason(error)}") from None
    if len(content) > _LARGEST:  # the beginning alone might mean something else
        raise LaunchRefused(f"cannot read {path}: it is larger than {_LARGEST} bytes")
    return content

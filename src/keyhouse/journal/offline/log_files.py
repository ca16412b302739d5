"""The files of all transparency logs in a state directory, for copies."""

import os
from collections.abc import Iterator
from pathlib import Path

from keyhouse.journal.directory.disk import PUBLIC_LOG, Disk
from keyhouse.journal.directory.log_files import LARGEST_OBJECT, make_directories


def all_parts(disk: Disk, state_directory: Path) -> Iterator[str]:
    """Yield the path, below the state directory, of each file of each log.

    Raises ``StoreUnreadableError``, and ``InsecureFileError`` for directories of other users.
    """
    folders = [PUBLIC_LOG] if os.path.lexists(state_directory / PUBLIC_LOG) else []
    while folders:
        folder = folders.pop()
        disk.check_directory(state_directory / folder)
        for name in disk.names(state_directory / folder):
            path = f"{folder}/{name}"
            if (state_directory / path).is_dir():
                folders.append(path)
            elif not name.endswith(".tmp"):
                yield path


def put_part(disk: Disk, state_directory: Path, path: str, raw: bytes) -> None:
    """Write ``raw`` durably to the file at ``path``, a path from ``all_parts``."""
    file = state_directory / path
    make_directories(disk, state_directory, file.parent)
    if disk.read(file, limit=LARGEST_OBJECT) != raw:
        disk.write(file, raw)

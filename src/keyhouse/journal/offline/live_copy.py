"""A consistent copy of a store while another process writes to it.

The coordinator's connection is exclusive, so no other process can read through SQLite. Locks of the
host are not relied on, because an enclave keeps its locks inside. The copy is consistent because of
how SQLite writes in WAL mode:

1. ``journal.db`` changes by checkpoints only, which copy pages from ``journal.db-wal`` into it.
2. The WAL is appended to, and each of its frames is bound to all before it by a checksum that
   begins with the salts in its header. From any part of it that starts with the header, SQLite
   reads up to the last complete commit.
3. A WAL restarts, with new random salts, only after all of it is in ``journal.db``.

So: read ``journal.db``, then the WAL, then compare ``journal.db`` and the header of the WAL with
what was read. If both are the same, no page changed from before the WAL was read until after it,
and the WAL did not restart while it was read. Then the WAL that was read has every frame that a
checkpoint may have copied before, and the two together are the store at one commit. (A page that
was read half written is in the WAL as well, and SQLite uses that one.) If not, all is read again: a
checkpoint has just ended then, so that there is time until the next.

``sealed_key`` and the index are read before and after too. They are replaced whole, never with
equal bytes, and the key of an epoch is written before its first record.
"""

import os
import time
from pathlib import Path

from keyhouse.base.durable_files import create
from keyhouse.base.errors import UnavailableError
from keyhouse.base.progress import advance, begin
from keyhouse.journal.directory import replacement
from keyhouse.journal.directory.acquire import refuse_rollback_journal
from keyhouse.journal.directory.disk import Disk, size_of
from keyhouse.journal.directory.index_file import FILE_LIMIT as INDEX_LIMIT
from keyhouse.journal.directory.layout import (
    INDEX,
    JOURNAL,
    NEXT_INDEX,
    SEALED_KEY,
    TOMBSTONE,
)
from keyhouse.journal.directory.sealing import FILE_LIMIT as KEY_LIMIT
from keyhouse.journal.directory.tombstone import FILE_LIMIT as TOMBSTONE_LIMIT
from keyhouse.journal.store.protocol import Step, StoreUnreadableError, no_step

__all__ = ["ATTEMPTS", "StoreBusyError", "copy_live_store"]

ATTEMPTS = 200
"""Attempts to copy a changing store before the copy is refused."""

_PAUSE = 0.01  # seconds
_CHUNK = 1024 * 1024
_WAL = f"{JOURNAL}-wal"
_WAL_HEADER = 32  # bytes; salts and checksum are in it
_SMALL = (
    (SEALED_KEY, KEY_LIMIT),
    (INDEX, INDEX_LIMIT),
    (NEXT_INDEX, INDEX_LIMIT),
    (TOMBSTONE, TOMBSTONE_LIMIT),
)


class StoreBusyError(UnavailableError):
    """A store that changed during every attempt to copy it."""

    code = "store-busy"


def copy_live_store(
    directory: Path, copy: Path, *, attempts: int = ATTEMPTS, step: Step = no_step
) -> None:
    """Fill the empty directory ``copy`` with the store in ``directory`` as it was at one commit.

    A coordinator may run in ``directory``, but not in this process: SQLite would lose its locks
    when the file is closed here. Nothing is written there. The last commit in the copy may be one
    that was not yet synced or answered.

    ``step`` is called before each part that is read. Raises ``StoreBusyError``, and refusals of
    files that other users can access.
    """
    disk = Disk(step)
    disk.check_directory(directory)
    refuse_rollback_journal(directory)
    for _ in range(attempts):
        if _copied(disk, directory, copy):
            return
        for name in disk.names(copy):
            (copy / name).unlink()
        time.sleep(_PAUSE)
    if replacement.is_committed(directory):
        raise StoreBusyError(
            "a new store was being put in place here and that has not ended",
            hint="start the coordinator, which finishes it, or keep it running",
        )
    raise StoreBusyError(
        f"the store changed during each of {attempts} attempts to copy it",
        hint="try again when less is changed, or stop the coordinator meanwhile",
    )


def _copied(disk: Disk, directory: Path, copy: Path) -> bool:
    """Copy everything once; return whether the copy is consistent."""
    if replacement.is_committed(directory):
        return False
    small = _read_small(disk, directory)
    begin("copying", 2 * size_of(directory / JOURNAL) + size_of(directory / _WAL))
    _copy_file(disk, directory / JOURNAL, copy / JOURNAL)
    _copy_file(disk, directory / _WAL, copy / _WAL)
    disk.step("compare")
    same = (
        _head(disk, directory / _WAL) == _head(disk, copy / _WAL)
        and _equal(disk, directory / JOURNAL, copy / JOURNAL)
        and small == _read_small(disk, directory)
        and not replacement.is_committed(directory)
    )
    if same:
        for name, data in small.items():
            disk.write(copy / name, data)
    return same


def _read_small(disk: Disk, directory: Path) -> dict[str, bytes]:
    found = ((name, disk.read(directory / name, limit=limit)) for name, limit in _SMALL)
    return {name: data for name, data in found if data is not None}


def _open(disk: Disk, path: Path) -> int | None:
    """Return the file ``path``, checked and open; None if it is missing."""
    try:
        if not disk.check_file(path):
            return None
        return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError:
        raise _uncopied(path) from None


def _copy_file(disk: Disk, source: Path, target: Path) -> None:
    handle = _open(disk, source)
    if handle is None:
        return
    try:
        with (
            os.fdopen(handle, "rb", buffering=0) as original,
            create(target) as copy,
        ):
            disk.step(f"read {source.name}")
            while chunk := original.read(_CHUNK):
                copy.write(chunk)
                advance(len(chunk))
                disk.step(f"read on in {source.name}")
    except OSError:
        raise _uncopied(source) from None


def _head(disk: Disk, path: Path) -> bytes:
    handle = _open(disk, path)
    if handle is None:
        return b""
    with os.fdopen(handle, "rb", buffering=0) as file:
        return file.read(_WAL_HEADER)


def _equal(disk: Disk, path: Path, copy: Path) -> bool:
    handle = _open(disk, path)
    if handle is None:
        return not os.path.lexists(copy)
    if not os.path.lexists(copy):
        os.close(handle)
        return False
    try:
        with os.fdopen(handle, "rb") as now, copy.open("rb") as then:
            while chunk := then.read(_CHUNK):
                if now.read(_CHUNK) != chunk:
                    return False
                advance(len(chunk))
            return not now.read(1)
    except OSError:
        raise _uncopied(path) from None


def _uncopied(path: Path) -> StoreUnreadableError:
    return StoreUnreadableError(
        f"{path.name} cannot be copied", hint="look at its disk and that of the backup"
    )

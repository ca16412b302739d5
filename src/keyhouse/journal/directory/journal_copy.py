"""Copies a journal consistently while another process may write to it.

The coordinator's connection is exclusive, so no other process can read through SQLite. The host's
locks do not help, because an enclave does not share locks. The copy is consistent because of
the way SQLite writes in WAL mode:

1. Only a checkpoint of SQLite changes ``journal.db``. It copies pages from ``journal.db-wal`` into
   the file. (The checkpoints of the transparency log are unrelated.)
2. The WAL is appended to. A checksum binds each frame to all earlier frames and to the salts in the
   header. From any part of the WAL that begins with the header, SQLite reads up to the last
   complete commit.
3. A WAL restarts, with new random salts, only after all of it is in ``journal.db``.

So the copy reads ``journal.db``, then the WAL, and then compares ``journal.db`` and the header of
the WAL with the first reading. If nothing differs, no page changed from before the reading of the
WAL until after it, and the WAL did not restart in that time. Then the copied WAL has every frame
that a checkpoint may have copied before, and both files together are the store at some commit. (A
page that was read half written is also in the WAL, and SQLite uses the WAL's page.) If anything has
changed, everything is read again: a checkpoint has just ended, so there is time until the next
checkpoint.

A process that cannot see the locks of other processes replaces the journal by such a copy before
opening it (``make_own``). A process that still has the old file open then writes to a file without
a name. Its answered changes are in the copy, because the process checks for another holder of the
directory after each commit.
"""

import os
import time
from pathlib import Path
from typing import BinaryIO, Final

from keyhouse.base.durable_files import create, without_links
from keyhouse.base.progress import advance, begin
from keyhouse.journal.directory.disk import JOURNAL, WAL, Disk, off_loop, size_of
from keyhouse.journal.store.protocol import StoreLockedError, StoreUnreadableError
from keyhouse.journal.store.sqlite import SqliteStore

_CHUNK: Final = 1024 * 1024  # bytes of one read, chosen
_WAL_HEADER: Final = 32  # bytes with salts and checksum, SQLite's file format, 4.1
_ATTEMPTS: Final = 50  # chosen: with the pause, half a second
_PAUSE: Final = 0.01  # seconds, chosen: a transaction of a coordinator is shorter
_OWN: Final = f"{JOURNAL}.tmp"
_OWN_WAL: Final = f"{_OWN}-wal"

OWN_FILES: Final = (_OWN, _OWN_WAL)
"""The remains of an interrupted ``make_own``."""


async def make_own(disk: Disk, directory: Path) -> None:
    """Replace the journal in ``directory`` by a copy that no process has open.

    SQLite writes the commits in the WAL into the copy. The copy then replaces the journal, and the
    old WAL is removed. After a crash between these two steps, the old WAL adds no commits to the
    new journal, or only later commits. Raises ``StoreLockedError`` if another process writes all
    the time.
    """
    await off_loop(_copy, disk, directory)
    store = await SqliteStore.open(directory / _OWN, step=disk.step, fence=disk.fence)
    await store.close()
    await off_loop(_put_in_place, disk, directory)


def _copy(disk: Disk, directory: Path) -> None:
    for _ in range(_ATTEMPTS):
        for name in OWN_FILES:
            disk.remove(directory / name)
        if copy_journal(disk, directory, directory / _OWN):
            return
        time.sleep(_PAUSE)
    raise StoreLockedError(
        f"another process writes to {JOURNAL} all the time", hint="stop that process"
    )


def _put_in_place(disk: Disk, directory: Path) -> None:
    if os.path.lexists(directory / _OWN_WAL):
        raise StoreUnreadableError(
            f"the copy of {JOURNAL} is not closed: the file {JOURNAL}-wal remains",
            hint="check space and errors of the disk with the state directory, then try again",
        )
    disk.sync_file(directory / _OWN)
    disk.rename(directory / _OWN, directory / JOURNAL)
    disk.remove(directory / WAL)
    disk.sync_directory(directory)


def copy_journal(disk: Disk, directory: Path, target: Path) -> bool:
    """Copy the journal in ``directory`` and its WAL to ``target``; return whether they fit.

    False: the journal or the WAL has changed between the reads, so copy again.
    """
    target_wal = target.with_name(f"{target.name}-wal")
    begin("copying", 2 * size_of(directory / JOURNAL) + size_of(directory / WAL))
    _copy_file(disk, directory / JOURNAL, target)
    _copy_file(disk, directory / WAL, target_wal)
    disk.step("compare")
    same_wal = _head(disk, directory / WAL) == _head(disk, target_wal)
    return same_wal and _equal(disk, directory / JOURNAL, target)


def _open(disk: Disk, path: Path) -> BinaryIO | None:
    """Return the checked and opened file ``path``, or None if missing."""
    try:
        if not disk.check_file(path):
            return None
        return open(path, "rb", opener=without_links)
    except FileNotFoundError:
        return None
    except OSError:
        raise _uncopied(path) from None


def _copy_file(disk: Disk, source: Path, target: Path) -> None:
    original = _open(disk, source)
    if original is None:
        return
    try:
        with original, create(target) as copy:
            disk.step(f"read {source.name}")
            while chunk := original.read(_CHUNK):
                copy.write(chunk)
                advance(len(chunk))
                disk.step(f"read on in {source.name}")
    except OSError:
        raise _uncopied(source) from None


def _head(disk: Disk, path: Path) -> bytes:
    file = _open(disk, path)
    if file is None:
        return b""
    with file:
        return file.read(_WAL_HEADER)


def _equal(disk: Disk, path: Path, copy: Path) -> bool:
    now = _open(disk, path)
    if now is None:
        return not os.path.lexists(copy)
    try:
        with now, copy.open("rb") as then:
            while chunk := then.read(_CHUNK):
                if now.read(_CHUNK) != chunk:
                    return False
                advance(len(chunk))
            return not now.read(1)
    except FileNotFoundError:  # no copy exists
        return False
    except OSError:
        raise _uncopied(path) from None


def _uncopied(path: Path) -> StoreUnreadableError:
    return StoreUnreadableError(
        f"{path.name} cannot be copied", hint="check the disks of the state and of the backup"
    )

"""A consistent copy of a store while another process writes to it.

How the journal is copied: ``journal/directory/journal_copy.py``.

``sealed_key`` and the index are read before and after too. They are replaced whole, never with
equal bytes, and the key of an epoch is written before its first record.
"""

import time
from pathlib import Path

from keyhouse.base.errors import UnavailableError
from keyhouse.journal.directory import replacement
from keyhouse.journal.directory.acquire import refuse_rollback_journal
from keyhouse.journal.directory.disk import Disk
from keyhouse.journal.directory.index_file import FILE_LIMIT as INDEX_LIMIT
from keyhouse.journal.directory.journal_copy import copy_journal
from keyhouse.journal.directory.layout import INDEX, JOURNAL, NEXT_INDEX, SEALED_KEY, TOMBSTONE
from keyhouse.journal.directory.log_files import LARGEST_OBJECT, all_parts, put_part
from keyhouse.journal.directory.sealing import FILE_LIMIT as KEY_LIMIT
from keyhouse.journal.directory.tombstone import FILE_LIMIT as TOMBSTONE_LIMIT
from keyhouse.journal.store.protocol import Step, no_step

ATTEMPTS = 200
"""Attempts to copy a changing store before the copy is refused."""

_PAUSE = 0.01  # seconds
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
    same = (
        copy_journal(disk, directory, copy / JOURNAL)
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


def copy_public_log(disk: Disk, source: Path, target: Path) -> None:
    """Copy the logs in the state directory ``source`` to ``target``, which exists.

    A coordinator may append to them meanwhile: every file is a beginning of what it becomes. So
    what is copied after a journal has all that this journal's base does not have. Raises
    ``UnavailableError``, and refusals of files that other users can access.
    """
    for part in all_parts(disk, source):
        raw = disk.read(source / part, limit=LARGEST_OBJECT)
        if raw is not None:
            put_part(disk, target, part, raw)

"""Putting a new store in the place of the old one, with no moment at which there is none.

The new store is built whole in ``incoming.tmp/``. Renaming that to ``incoming/`` is the commit:
whoever finds an ``incoming/`` finishes what it began, as often as needed.

``incoming/plan`` names the directory under ``archive/`` for the old files. A file that is still in
``incoming/`` has not taken its place yet, so what stands there is old; one that is gone from it
has. The journal goes last: while it is in ``incoming/``, WAL files belong to the old one and must
never meet the new one.
"""

import os
import re
from datetime import datetime
from pathlib import Path

from keyhouse.journal.disk import Disk
from keyhouse.journal.store import StoreDamaged

__all__ = [
    "INDEX",
    "JOURNAL",
    "NEXT_INDEX",
    "SEALED_KEY",
    "archive_name",
    "commit",
    "finish",
    "prepare",
]

SEALED_KEY = "sealed_key"
INDEX = "recovery_index"
NEXT_INDEX = "recovery_index.next"
JOURNAL = "journal.db"

_INCOMING = "incoming"
_PREPARED = "incoming.tmp"
_ARCHIVE = "archive"
_PLAN = "plan"
_WAL_FILES = (f"{JOURNAL}-wal", f"{JOURNAL}-shm")
_NEW_FILES = (INDEX, SEALED_KEY, JOURNAL)
_PLAN_FORM = re.compile(rb"(replace|clear) ([0-9A-Za-z-]{1,64})\n")
_PLAN_LIMIT = 128


def archive_name(now: datetime, store_id: bytes | None) -> str:
    """Return the name for an old store: UTC time, then the beginning of its store id."""
    owner = "unknown" if store_id is None else store_id.hex()[:8]
    return f"{now:%Y%m%dT%H%M%SZ}-{owner}"


def prepare(disk: Disk, home: Path, archive: str, *, clear: bool = False) -> Path:
    """Return an empty ``incoming.tmp/`` with its plan. ``clear``: nothing will take the place."""
    place = home / _PREPARED
    disk.remove_directory(place)
    disk.make_directory(place)
    archive = _unused(home / _ARCHIVE, archive)
    word = "clear" if clear else "replace"
    disk.write(place / _PLAN, f"{word} {archive}\n".encode("ascii"))
    return place


def commit(disk: Disk, home: Path) -> None:
    """Make ``incoming.tmp/``, whose files are synced, the store that counts."""
    disk.sync_directory(home / _PREPARED)
    disk.rename(home / _PREPARED, home / _INCOMING)
    disk.sync_directory(home)


def finish(disk: Disk, home: Path) -> None:
    """Remove what was never committed; carry out what was. Does nothing if there is neither."""
    disk.remove_directory(home / _PREPARED)
    incoming = home / _INCOMING
    if not os.path.lexists(incoming):
        return
    disk.check_directory(incoming)
    names = disk.names(incoming)
    if names:
        archive, clear = _read_plan(disk, incoming)
        _move(disk, home, home / _ARCHIVE / archive, clear=clear)
        disk.remove(incoming / _PLAN)
    disk.remove_directory(incoming)
    disk.sync_directory(home)


def _move(disk: Disk, home: Path, archive: Path, *, clear: bool) -> None:
    incoming = home / _INCOMING
    journal_is_old = clear or os.path.lexists(incoming / JOURNAL)
    if journal_is_old:
        for name in (*_WAL_FILES, NEXT_INDEX):
            _put_aside(disk, home / name, archive)
        # Before the new journal arrives: a WAL of the old one beside it would be taken for its own.
        disk.sync_directory(home)
    for name in _NEW_FILES:
        arriving = os.path.lexists(incoming / name)
        if clear or arriving:
            _put_aside(disk, home / name, archive)
        if arriving:
            disk.rename(incoming / name, home / name)
    for directory in (archive, archive.parent, incoming, home):
        if os.path.lexists(directory):
            disk.sync_directory(directory)


def _put_aside(disk: Disk, path: Path, archive: Path) -> None:
    if os.path.lexists(path):
        disk.make_directory(archive.parent)
        disk.make_directory(archive)
        disk.rename(path, archive / path.name)


def _read_plan(disk: Disk, incoming: Path) -> tuple[str, bool]:
    raw = disk.read(incoming / _PLAN, limit=_PLAN_LIMIT)
    form = _PLAN_FORM.fullmatch(raw or b"")
    if form is None:
        raise StoreDamaged(
            "incoming/plan is missing or damaged: a new store was being put in place",
            hint="restore the state directory from a backup",
        )
    return form[2].decode("ascii"), form[1] == b"clear"


def _unused(parent: Path, name: str) -> str:
    candidate, number = name, 1
    while os.path.lexists(parent / candidate):
        number += 1
        candidate = f"{name}-{number}"
    return candidate

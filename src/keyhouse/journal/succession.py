"""Putting a new store in the place of the old one, with no moment at which there is none.

The new store is built whole in ``incoming.tmp/``. Renaming that to ``incoming/`` is the commit:
whoever finds an ``incoming/`` finishes what it began, as often as needed.

``incoming/plan`` names the directory under ``archive/`` for the old files, and the files to come.
One of those that is still in ``incoming/`` has not taken its place yet, so what stands there is
old; one that is gone from it has. The journal goes last: while it is in ``incoming/``, WAL files
belong to the old one and must never meet the new one.

A store comes back from ``archive/`` in the same way: it gets a plan, and its directory is renamed
to ``incoming/``.

A store ends in the same way too: the plan says ``erase``, and what takes its place is a tombstone,
which tells later starts that nothing is missing. It goes when a store comes.
"""

import os
import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from keyhouse.base.errors import KeyhouseError
from keyhouse.journal import sealing
from keyhouse.journal.disk import Disk
from keyhouse.journal.store import StoreDamaged
from keyhouse.journal.tombstone import TOMBSTONE

__all__ = [
    "ARCHIVE",
    "INCOMING",
    "INDEX",
    "JOURNAL",
    "NEXT_INDEX",
    "PLAN",
    "SEALED_KEY",
    "abandon",
    "archive_name",
    "bring_back",
    "commit",
    "finish",
    "is_committed",
    "prepare",
    "prepare_end",
]

SEALED_KEY = "sealed_key"
INDEX = "recovery_index"
NEXT_INDEX = "recovery_index.next"
JOURNAL = "journal.db"

INCOMING = "incoming"
_PREPARED = "incoming.tmp"
ARCHIVE = "archive"
PLAN = "plan"
_WAL_FILES = (f"{JOURNAL}-wal", f"{JOURNAL}-shm")
_NEW_FILES = (INDEX, SEALED_KEY, JOURNAL)
_RESTORED = rb"restore(?P<files>(?: (?:recovery_index|sealed_key|journal\.db)){1,3})"
_PLAN_FORM = re.compile(
    rb"(?P<what>replace|clear|" + _RESTORED + rb") (?P<archive>[0-9A-Za-z-]{1,64})\n"
)
_ERASE = b"erase\n"
_PLAN_LIMIT = 256


def archive_name(disk: Disk, home: Path, now: datetime) -> str:
    """Return the name for the present store: UTC time, then the beginning of its store id."""
    raw = disk.read(home / SEALED_KEY, limit=sealing.FILE_LIMIT)
    owner = "unknown"
    if raw is not None:
        with suppress(KeyhouseError):
            owner = sealing.parse(raw).store_id.hex()[:8]
    return f"{now:%Y%m%dT%H%M%SZ}-{owner}"


def prepare(disk: Disk, home: Path, archive: str, *, clear: bool = False) -> Path:
    """Return an empty ``incoming.tmp/`` with its plan. ``clear``: nothing will take the place."""
    place = home / _PREPARED
    disk.remove_directory(place)
    disk.make_directory(place)
    archive = _unused(home / ARCHIVE, archive)
    word = "clear" if clear else "replace"
    disk.write(place / PLAN, f"{word} {archive}\n".encode("ascii"))
    return place


def prepare_end(disk: Disk, home: Path, tombstone: bytes) -> None:
    """Make an ``incoming.tmp/`` with which the store ends: ``tombstone`` is what is left of it."""
    place = home / _PREPARED
    disk.remove_directory(place)
    disk.make_directory(place)
    disk.write(place / PLAN, _ERASE)
    disk.write(place / TOMBSTONE, tombstone)


def abandon(disk: Disk, home: Path) -> None:
    """Remove what was prepared and not committed."""
    disk.remove_directory(home / _PREPARED)


def is_committed(home: Path) -> bool:
    """Tell whether there is something to finish: after a failed ``commit``, whether it happened."""
    return os.path.lexists(home / INCOMING)


def commit(disk: Disk, home: Path) -> None:
    """Make ``incoming.tmp/``, whose files are synced, the store that counts, or the end of it."""
    disk.sync_directory(home / _PREPARED)
    disk.rename(home / _PREPARED, home / INCOMING)
    disk.sync_directory(home)


def bring_back(disk: Disk, home: Path, name: str, archive: str) -> None:
    """Make ``archive/<name>/`` the store that counts; ``finish`` carries it out.

    Its WAL is empty and its index settled. ``archive`` is for what stands in its place.
    """
    place = home / ARCHIVE / name
    archive = _unused(home / ARCHIVE, archive)
    files = " ".join(each for each in _NEW_FILES if os.path.lexists(place / each))
    disk.write(place / PLAN, f"restore {files} {archive}\n".encode("ascii"))
    disk.rename(place, home / INCOMING)
    disk.sync_directory(home)
    disk.sync_directory(home / ARCHIVE)


def finish(disk: Disk, home: Path) -> None:
    """Remove what was never committed; carry out what was. Does nothing if there is neither."""
    disk.remove_directory(home / _PREPARED)
    incoming = home / INCOMING
    if not os.path.lexists(incoming):
        return
    disk.check_directory(incoming)
    names = disk.names(incoming)
    if names:
        if disk.read(incoming / PLAN, limit=_PLAN_LIMIT) == _ERASE:
            _erase(disk, home)
        else:
            archive, files = _read_plan(disk, incoming)
            _move(disk, home, home / ARCHIVE / archive, files)
        disk.remove(incoming / PLAN)
    disk.remove_directory(incoming)
    disk.sync_directory(home)


def _move(disk: Disk, home: Path, archive: Path, files: Sequence[str]) -> None:
    incoming = home / INCOMING
    journal_is_old = JOURNAL not in files or os.path.lexists(incoming / JOURNAL)
    if journal_is_old:
        for name in (*_WAL_FILES, NEXT_INDEX):
            _put_aside(disk, home / name, archive)
        # Before the new journal arrives: a WAL of the old one beside it would be taken for its own.
        disk.sync_directory(home)
    for name in _NEW_FILES:
        arriving = os.path.lexists(incoming / name)
        if arriving or name not in files:
            _put_aside(disk, home / name, archive)
        if arriving:
            disk.rename(incoming / name, home / name)
    if JOURNAL in files:
        disk.remove(home / TOMBSTONE)
    for directory in (archive, archive.parent, incoming, home):
        if os.path.lexists(directory):
            disk.sync_directory(directory)


def _erase(disk: Disk, home: Path) -> None:
    """Leave nothing of the store but its tombstone. The key goes first: it opens all the rest."""
    for name in (SEALED_KEY, *_WAL_FILES, JOURNAL, NEXT_INDEX, INDEX):
        for each in (name, f"{name}.tmp"):
            disk.erase(home / each)
    disk.sync_directory(home)
    if os.path.lexists(home / INCOMING / TOMBSTONE):
        disk.rename(home / INCOMING / TOMBSTONE, home / TOMBSTONE)
        disk.sync_directory(home / INCOMING)
        disk.sync_directory(home)


def _put_aside(disk: Disk, path: Path, archive: Path) -> None:
    if os.path.lexists(path):
        disk.make_directory(archive.parent)
        disk.make_directory(archive)
        disk.rename(path, archive / path.name)


def _read_plan(disk: Disk, incoming: Path) -> tuple[str, Sequence[str]]:
    """Return the name of the archive, and the files that take their place."""
    raw = disk.read(incoming / PLAN, limit=_PLAN_LIMIT)
    form = _PLAN_FORM.fullmatch(raw or b"")
    if form is None:
        raise StoreDamaged(
            "incoming/plan is missing or damaged: a new store was being put in place",
            hint="restore the state directory from a backup",
        )
    named = (form["files"] or b"").decode("ascii").split()
    files = {b"replace": _NEW_FILES, b"clear": ()}.get(form["what"], tuple(named))
    return form["archive"].decode("ascii"), files


def _unused(parent: Path, name: str) -> str:
    candidate, number = name, 1
    while os.path.lexists(parent / candidate):
        number += 1
        candidate = f"{name}-{number}"
    return candidate

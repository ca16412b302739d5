"""Replaces a store atomically. After a crash, the old store or the new store is complete.

The new store is built completely in ``incoming/``. The first file there is ``plan.new``. Renaming
``plan.new`` to ``plan`` is the commit. A start that finds ``incoming/plan`` carries the replacement
out, as often as necessary. A start that finds ``plan.new`` removes the files in ``incoming/``,
``plan.new`` last. So files in ``incoming/`` without a plan are damage. Directories are never
renamed, because Gramine cannot rename them.

The plan names the directory under ``archive/`` for the old files, and the new files. While a new
file is still in ``incoming/``, the file of that name in the state directory is old; afterwards it
is new. The old files are moved first, ``recovery_index`` last. Then the new files are moved, the
journal last. While the new journal is in ``incoming/``, the WAL files belong to the old journal,
and must never be beside the new journal.

A plan names the store that it replaces. As long as an old key or journal exists, the old
``recovery_index`` exists too, and must belong to that store. So a plan that was planted, or copied
from another directory, is refused. This is a hurdle, not a proof: an attacker with write access can
read the names, and could as well empty the directory.

A store returns from ``archive/`` in the same way: its plan names that directory, and the new files
come from there instead of ``incoming/``. Earlier versions renamed that directory to ``incoming/``,
and built new stores in ``incoming.tmp/``.

A store is erased in the same way: the plan is ``erase``, and the replacement is a tombstone. The
tombstone identifies the store and shows later starts that nothing is missing. A new store removes
the tombstone.
"""

import os
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from keyhouse.base.errors import KeyhouseError
from keyhouse.journal.directory import sealing
from keyhouse.journal.directory.disk import (
    ARCHIVE,
    INCOMING,
    INDEX,
    JOURNAL,
    NEXT_INDEX,
    SEALED_KEY,
    TOMBSTONE,
    WAL_FILES,
    Disk,
)
from keyhouse.journal.directory.index_file import FILE_LIMIT as INDEX_LIMIT, IndexFile
from keyhouse.journal.directory.replacement_plan import (
    ERASE,
    PLAN,
    PLAN_LIMIT,
    PLANNED,
    Owner,
    ReplacementPlan,
    not_for,
)
from keyhouse.journal.directory.tombstone import FILE_LIMIT as TOMBSTONE_LIMIT, Tombstone
from keyhouse.journal.store.protocol import StoreDamagedError, StoreNewerError

_PREPARED = "incoming.tmp"  # of earlier versions, never committed
_LEAVING = (SEALED_KEY, JOURNAL, INDEX)
_COMING = (INDEX, SEALED_KEY, JOURNAL)


def archive_name(disk: Disk, folder: Path, now: datetime) -> str:
    """Return the archive name of the store in ``folder``: ``now``, and the start of its id.

    ``now`` is in UTC.
    """
    raw = disk.read(folder / SEALED_KEY, limit=sealing.FILE_LIMIT)
    owner = "unknown"
    if raw is not None:
        with suppress(KeyhouseError):
            owner = sealing.parse(raw).store_id.hex()[:8]
    return f"{now:%Y%m%dT%H%M%SZ}-{owner}"


def prepare(disk: Disk, folder: Path, archive: str, *, clear: bool = False) -> Path:
    """Create ``incoming/`` with a plan to replace the store in ``folder``; return ``incoming/``.

    ``archive``: the name of the old store in the archive. ``clear``: the old store moves to the
    archive, and no new store replaces it.
    """
    word = "clear" if clear else "replace"
    return _begin(disk, folder, _plan(disk, folder, word, archive).encode())


def prepare_end(disk: Disk, folder: Path, tombstone: bytes) -> None:
    """Prepare to erase the store in ``folder``, and to leave a tombstone there.

    ``tombstone``: the bytes of the file.
    """
    place = _begin(disk, folder, ERASE)
    disk.write_new(place / TOMBSTONE, tombstone)
    disk.sync_file(place / TOMBSTONE)


def abandon(disk: Disk, folder: Path) -> None:
    """Remove a prepared replacement of the store in ``folder`` that was not committed.

    Raises ``StoreDamagedError`` if ``incoming/`` has files but no plan.
    """
    incoming = folder / INCOMING
    if not os.path.lexists(incoming):
        return
    disk.check_directory(incoming)
    names = set(disk.names(incoming))
    if names - {f"{PLANNED}.tmp"} and PLANNED not in names:
        ReplacementPlan.decode(None)
    _remove(disk, incoming, last=PLANNED)


def is_committed(folder: Path) -> bool:
    """Return whether a replacement of the store in ``folder`` is committed.

    After a failed ``commit``, the result shows whether the commit has happened.
    """
    return os.path.lexists(folder / INCOMING / PLAN)


def commit(disk: Disk, folder: Path) -> None:
    """Commit the prepared replacement of the store in ``folder``; ``finish`` carries it out.

    The files in ``incoming/`` must be synced.
    """
    incoming = folder / INCOMING
    disk.sync_directory(incoming)
    disk.sync_directory(folder)
    disk.rename(incoming / PLANNED, incoming / PLAN)
    disk.sync_directory(incoming)


def bring_back(disk: Disk, folder: Path, name: str, archive: str) -> None:
    """Commit that ``archive/<name>/`` becomes the present store; ``finish`` carries it out.

    The archived store must have an empty WAL, and one index (``settle_index``). ``archive``: the
    name of the present store in the archive.
    """
    place = folder / ARCHIVE / name
    files = [each for each in _COMING if os.path.lexists(place / each)]
    plan = _plan(disk, folder, "restore", archive, files=files, source=name)
    _begin(disk, folder, plan.encode())
    commit(disk, folder)


def origin(disk: Disk, folder: Path) -> Path | None:
    """Return the directory with the new files of a committed replacement.

    None: no replacement is committed in the state directory ``folder``.
    """
    raw = disk.read(folder / INCOMING / PLAN, limit=PLAN_LIMIT) if is_committed(folder) else None
    if raw is None:
        return None
    return folder / INCOMING if raw == ERASE else _origin(folder, ReplacementPlan.decode(raw))


def finish(disk: Disk, folder: Path) -> None:
    """Carry out the replacement of the store in ``folder`` if it is committed, else remove it.

    Without a replacement, do nothing. Raises ``StoreDamagedError`` if the plan names a different
    store than the present store.
    """
    disk.remove_directory(folder / _PREPARED)
    incoming = folder / INCOMING
    if not os.path.lexists(incoming):
        return
    disk.check_directory(incoming)
    if not is_committed(folder):
        abandon(disk, folder)
        return
    raw = disk.read(incoming / PLAN, limit=PLAN_LIMIT)
    if raw == ERASE:
        _require_erasable(disk, folder)
        _erase(disk, folder)
    else:
        plan = ReplacementPlan.decode(raw)
        if plan.source:
            _check_source(disk, folder, plan.source)
        _require_replaceable(disk, folder, plan)
        _move(disk, folder, plan)
        if plan.source and os.path.lexists(folder / ARCHIVE / plan.source):
            disk.remove_directory(folder / ARCHIVE / plan.source)
            disk.sync_directory(folder / ARCHIVE)
    _remove(disk, incoming, last=PLAN)
    disk.sync_directory(folder)


def _begin(disk: Disk, folder: Path, plan: bytes) -> Path:
    """Create the directory ``incoming/`` with the file ``plan.new``; return the directory.

    ``plan``: the bytes of the file. Only a later rename of the file commits the replacement.
    """
    abandon(disk, folder)
    place = folder / INCOMING
    disk.make_directory(place)
    disk.write_new(place / PLANNED, plan)
    disk.sync_file(place / PLANNED)
    disk.sync_directory(place)  # first, because a file without a plan is damage
    return place


def _remove(disk: Disk, directory: Path, *, last: str) -> None:
    """Remove ``directory`` and its files, the identifying file ``last`` at the end."""
    others = [name for name in disk.names(directory) if name != last]
    for name in others:
        disk.remove(directory / name)
    if others:
        disk.sync_directory(directory)
    disk.remove_directory(directory)


def _origin(folder: Path, plan: ReplacementPlan) -> Path:
    """Return the directory with the new files of ``plan``."""
    return folder / ARCHIVE / plan.source if plan.source else folder / INCOMING


def _check_source(disk: Disk, folder: Path, name: str) -> None:
    for path in (folder / ARCHIVE, folder / ARCHIVE / name):
        if os.path.lexists(path):  # otherwise all files have moved
            disk.check_directory(path)


def _require_replaceable(disk: Disk, folder: Path, plan: ReplacementPlan) -> None:
    """Refuse ``plan`` unless its owner is the store of the remaining old files."""
    old = _old_files(folder, plan)
    if not old:
        return
    if plan.what == "clear":
        if plan.owner is None:  # from an older version, or planted
            raise not_for(
                plan.what, because=f"does not name the store to replace, and {old[0]} exists"
            )
    elif not os.path.lexists(_origin(folder, plan) / JOURNAL):
        raise not_for(plan.what, because=f"there is no new {JOURNAL}, and {old[0]} exists")
    elif not plan.is_bound:  # from an older version: its complete store is checked like any other
        return
    if old != [INDEX]:
        found = _owner(disk, folder / INDEX) if INDEX in old else None
        if found != plan.owner:
            owners = f"for {_named(plan.owner)}: {INDEX} is of {_named(found)}"
            raise not_for(plan.what, because=owners)


def _require_erasable(disk: Disk, folder: Path) -> None:
    """Refuse the erasure unless the tombstone identifies the store in ``folder``."""
    existing = _existing(folder, (SEALED_KEY, JOURNAL, INDEX))
    raw = disk.read(folder / INCOMING / TOMBSTONE, limit=TOMBSTONE_LIMIT)
    if raw is None:
        if existing:
            raise not_for("erase", because=f"there is no {TOMBSTONE}, and {existing[0]} exists")
        return
    tombstone = Tombstone.decode(raw)
    owner = Owner(tombstone.store_id, tombstone.position.epoch)
    found = [_owner(disk, folder / name) for name in (INDEX, NEXT_INDEX)]
    # The index is erased after key and journal, so it may be half erased now.
    if {SEALED_KEY, JOURNAL}.intersection(existing) and owner not in found:
        raise not_for("erase", because=f"for {owner}: {INDEX} is of {_named(found[0])}")


def _old_files(folder: Path, plan: ReplacementPlan) -> list[str]:
    coming, place = _coming(plan), _origin(folder, plan)
    return [
        name
        for name in _existing(folder, _LEAVING)
        if name not in coming or os.path.lexists(place / name)
    ]


def _coming(plan: ReplacementPlan) -> tuple[str, ...]:
    """Return the names of the new files in ``plan``."""
    return {"replace": _COMING, "clear": ()}.get(plan.what, plan.files)


def _existing(folder: Path, names: Iterable[str]) -> list[str]:
    return [name for name in names if os.path.lexists(folder / name)]


def _owner(disk: Disk, index: Path) -> Owner | None:
    """Return store id and epoch in a recovery index; None for a missing or unreadable file."""
    with suppress(StoreDamagedError, StoreNewerError):
        raw = disk.read(index, limit=INDEX_LIMIT)
        if raw is not None:
            found = IndexFile.decode(raw, name=index.name)
            return Owner(found.store_id, found.epoch)
    return None


def _named(owner: Owner | None) -> str:
    return "no known store" if owner is None else str(owner)


def _move(disk: Disk, folder: Path, plan: ReplacementPlan) -> None:
    place, archive, files = (
        _origin(folder, plan),
        folder / ARCHIVE / plan.archive,
        _coming(plan),
    )
    # Then the journal in ``folder`` is old.
    if JOURNAL not in files or os.path.lexists(place / JOURNAL):
        _archive_wal(disk, folder, archive)
    for name in _old_files(folder, plan):
        if name == INDEX:  # moved last, because it identifies the old store
            disk.sync_directory(folder)
        _archive_file(disk, folder / name, archive)
    for name in _COMING:
        if os.path.lexists(place / name):
            disk.rename(place / name, folder / name)
    if JOURNAL in files:
        disk.remove(folder / TOMBSTONE)
    for directory in (archive, archive.parent, place, folder):
        if os.path.lexists(directory):
            disk.sync_directory(directory)


def _archive_wal(disk: Disk, folder: Path, archive: Path) -> None:
    """Move the WAL of the old store, and its next recovery index, to the archive, durably.

    SQLite would apply the old WAL to a new journal.
    """
    for name in (*WAL_FILES, NEXT_INDEX):
        _archive_file(disk, folder / name, archive)
    if os.path.lexists(archive):  # otherwise nothing has moved since the commit
        disk.sync_directory(folder)


def _erase(disk: Disk, folder: Path) -> None:
    """Erase the whole store except its tombstone. The key is first, because it opens the rest."""
    for name in (SEALED_KEY, *WAL_FILES, JOURNAL, NEXT_INDEX, INDEX):
        for each in (name, f"{name}.tmp"):
            disk.erase(folder / each)
    disk.sync_directory(folder)
    if os.path.lexists(folder / INCOMING / TOMBSTONE):
        disk.rename(folder / INCOMING / TOMBSTONE, folder / TOMBSTONE)
        disk.sync_directory(folder / INCOMING)
        disk.sync_directory(folder)


def _archive_file(disk: Disk, path: Path, archive: Path) -> None:
    if os.path.lexists(path):
        disk.make_directory(archive.parent)
        disk.make_directory(archive)
        disk.rename(path, archive / path.name)


def _plan(
    disk: Disk,
    folder: Path,
    what: str,
    archive: str,
    *,
    files: Iterable[str] = (),
    source: str = "",
) -> ReplacementPlan:
    """Return a plan for the present store.

    ``what``: the word of the plan, such as ``replace``. ``archive``: the name of the present store
    in the archive, if the name is unused. For a restore, ``files`` has the names of the restored
    files, and ``source`` the name of their store in the archive.
    """
    return ReplacementPlan(
        what=what,
        archive=_unused(folder / ARCHIVE, archive),
        files=tuple(files),
        owner=_owner(disk, folder / INDEX),
        source=source,
    )


def _unused(parent: Path, name: str) -> str:
    candidate, number = name, 1
    while os.path.lexists(parent / candidate):
        number += 1
        candidate = f"{name}-{number}"
    return candidate

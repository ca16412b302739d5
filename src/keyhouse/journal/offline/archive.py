"""List and restore archived stores."""

import os
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import msgspec

from keyhouse.base.errors import KeyhouseError, NotFoundError, RefusedError
from keyhouse.journal.directory import replacement
from keyhouse.journal.directory.acquire import acquire, refuse_rollback_journal
from keyhouse.journal.directory.disk import ARCHIVE, INDEX, JOURNAL, SEALED_KEY, STORE_FILES, Disk
from keyhouse.journal.directory.index_file import settle_index
from keyhouse.journal.directory.inspect import see_key
from keyhouse.journal.directory.replacement_plan import PLAN
from keyhouse.journal.offline.inspect import JournalSeen, see_index, see_journal
from keyhouse.journal.store.protocol import Step, StoreDamagedError, StoreUnreadableError, no_step

T = TypeVar("T")

_NAME = re.compile(r"[0-9A-Za-z-]{1,64}")


class NotRestorableError(RefusedError):
    """An archived store cannot be restored. Nothing has changed."""

    code = "not-restorable"


class StoreSeen(msgspec.Struct, frozen=True, rename="camel"):
    """A store, as described by its small files. Nothing is proven."""

    name: str  # name of its directory under ``archive/``; empty for the present store
    store_id: str  # 32 hex digits, empty if unknown
    epoch: int  # 0 if unknown
    size: int  # bytes of all its files
    platform_kind: str  # the platform of its sealed key; empty if unknown
    policy: str
    problem: str  # the parts that could not be read, with reasons


def archived_names(directory: Path) -> list[str]:
    """Return the names of the archived stores, the oldest first."""
    archive = directory / ARCHIVE
    if not os.path.lexists(archive):
        return []
    disk = Disk()
    disk.check_directory(archive)
    return [name for name in disk.names(archive) if _NAME.fullmatch(name)]


def list_stores(directory: Path) -> list[StoreSeen]:
    """Return the present store, if there is one, then the archived stores. Changes nothing."""
    Disk().check_directory(directory)
    names = archived_names(directory)
    archived = [_seen(name, directory / ARCHIVE / name) for name in names]
    if any(os.path.lexists(directory / name) for name in STORE_FILES):
        return [_seen("", directory), *archived]
    return archived


def _seen(name: str, folder: Path) -> StoreSeen:
    problems: list[str] = []
    key = _try(lambda: see_key(folder), problems)
    indexes = _try(lambda: see_index(folder), problems) or ()
    present = [folder / each for each in STORE_FILES if os.path.lexists(folder / each)]
    store_id = key.store_id if key else next((each.store_id for each in indexes), b"")
    if not problems and key is None:
        problems.append("sealed_key is missing")
    return StoreSeen(
        name=name,
        store_id=store_id.hex(),
        epoch=max((each.epoch for each in indexes), default=0),
        size=sum(path.lstat().st_size for path in present),
        platform_kind=key.platform_kind if key else "",
        policy=key.policy if key else "",
        problem="; ".join(problems),
    )


def _try(look: Callable[[], T], problems: list[str]) -> T | None:
    try:
        return look()
    except KeyhouseError as error:
        problems.append(error.message)
        return None


async def restore(
    directory: Path,
    name: str,
    *,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
    step: Step = no_step,
) -> str:
    """Restore the archived store ``name``; return the name of the present store in the archive.

    The result is empty if there was no present store. The present store moves to ``archive/``, as
    for a new manifest in recovery mode. Nothing is deleted, and a crash at any moment leaves one of
    the two stores, complete. Raises ``StoreLockedError`` while a coordinator has the directory,
    ``NotFoundError``, and the refusals of a damaged store.
    """
    disk = Disk(step)
    disk.check_directory(directory)
    lock = acquire(directory, disk)
    try:
        place = _place(disk, directory, name)
        seen = await see_journal(place)
        require_whole(disk, place, seen)
        aside = replacement.archive_name(disk, directory, now().astimezone(UTC))
        before = set(archived_names(directory))
        replacement.bring_back(disk, directory, name, aside)
        replacement.finish(disk, directory)
        return next(iter(set(archived_names(directory)) - before), "")
    finally:
        lock.release()


def _place(disk: Disk, directory: Path, name: str) -> Path:
    """Return the directory of the archived store ``name``; refuse foreign files in it."""
    place = directory / ARCHIVE / name
    if not _NAME.fullmatch(name) or not os.path.lexists(place):
        known = ", ".join(archived_names(directory))
        raise NotFoundError(
            "no archived store has this name",
            hint=f"name an archived store: {known}"
            if known
            else "restore a backup instead: this directory has no archived store",
        )
    disk.check_directory(place)
    refuse_rollback_journal(place)
    unknown = set(disk.names(place)) - {*STORE_FILES, PLAN, f"{PLAN}.tmp"}
    # The replacement deletes the remaining files of the directory at its end.
    if unknown:
        raise NotRestorableError(
            f"{ARCHIVE}/{name} has files that do not belong to a store:"
            f" {', '.join(sorted(unknown)[:5])}",
            hint="move these files to another directory",
        )
    for each in STORE_FILES:
        disk.check_file(place / each)
    return place


def require_whole(disk: Disk, place: Path, seen: JournalSeen | None) -> None:
    """Check that the files in the directory ``place`` form a store.

    ``seen``: the facts about its journal. Remove an index of another epoch.
    """
    if seen is None:
        raise NotRestorableError(
            f"the archived store {place.name} has no journal",
            hint="name another archived store: this store cannot be restored",
        )
    if os.path.lexists(place / f"{JOURNAL}-wal"):
        raise StoreUnreadableError(
            f"the archived {JOURNAL} is not closed: the file {JOURNAL}-wal remains",
            hint="check space and errors of the disk with the archive, then try again",
        )
    key = see_key(place)
    owners = {(each.store_id, each.epoch) for each in see_index(place)}
    fits = (seen.store_id, seen.position.epoch) in owners
    if not fits or (key is not None and key.store_id != seen.store_id):
        raise StoreDamagedError(
            f"{SEALED_KEY if fits else INDEX} in {place.name} does not belong to its {JOURNAL}",
            hint="restore both files from one backup",
        )
    settle_index(disk, place, seen.position.epoch)
    disk.sync_file(place / JOURNAL)

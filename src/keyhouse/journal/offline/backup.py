"""Back up a store: a directory with the files of the store at one commit, and their digests.

``SHA256SUMS`` has a line for each file, in the format of sha256sum. It is written last: a directory
without it is not a backup. The digests detect damage of a medium. They prove nothing against an
attacker who can write the backup: only the tags of the records prove the author. A start verifies
the tags.

The files of the transparency log are in ``log/``, without digests: each start compares them with
the journal.

A backup has no keys of the platform. So it also lacks the file of a simulated machine, which is
such a key.

A coordinator may write to the store during the backup. ``journal/directory/journal_copy.py``
explains the copy of the journal. ``sealed_key`` and the index are read before and after this copy.
The coordinator always replaces each of these files as a whole, and never by equal bytes. It writes
the key of an epoch before the first record of the epoch. So if the second read returns the same
bytes as the first read, key and index fit the journal.
"""

import hashlib
import os
import re
import shutil
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from keyhouse.base.errors import NotFoundError, RefusedError, UnavailableError
from keyhouse.base.progress import begin
from keyhouse.journal.directory import replacement
from keyhouse.journal.directory.acquire import acquire, list_store_files, refuse_rollback_journal
from keyhouse.journal.directory.disk import (
    INDEX,
    JOURNAL,
    NEXT_INDEX,
    SEALED_KEY,
    TOMBSTONE,
    Disk,
    size_of,
)
from keyhouse.journal.directory.index_file import FILE_LIMIT as INDEX_LIMIT
from keyhouse.journal.directory.journal_copy import copy_journal
from keyhouse.journal.directory.log_files import LARGEST_OBJECT
from keyhouse.journal.directory.sealing import FILE_LIMIT as KEY_LIMIT
from keyhouse.journal.directory.tombstone import FILE_LIMIT as TOMBSTONE_LIMIT
from keyhouse.journal.offline.archive import require_whole
from keyhouse.journal.offline.inspect import JournalSeen, see_journal
from keyhouse.journal.offline.log_files import all_parts, put_part
from keyhouse.journal.offline.private_copy import copy_file
from keyhouse.journal.store.protocol import Step, StoreDamagedError, StoreUnreadableError, no_step

ATTEMPTS = 200
"""Attempts to copy a changing store before the copy fails."""

_PAUSE = 0.01  # seconds between two attempts, chosen: a transaction is shorter
_SMALL = (
    (SEALED_KEY, KEY_LIMIT),
    (INDEX, INDEX_LIMIT),
    (NEXT_INDEX, INDEX_LIMIT),
    (TOMBSTONE, TOMBSTONE_LIMIT),
)

DIGESTS = "SHA256SUMS"

Verify = Callable[[Path], Awaitable[None]]
"""Checks the files of a store on a copy; raises if they must not be used."""

_FILES = (SEALED_KEY, INDEX, JOURNAL)
_NEEDED = {INDEX, JOURNAL}
_LINE = re.compile(rb"([0-9a-f]{64})  ([a-z_.]{1,40})")
_DIGESTS_LIMIT = 4096  # bytes: the file has a line for each of a few files
# The archive name for a former store, which a restored directory does not have.
_ARCHIVE_NAME = "before-restore"


class StoreBusyError(UnavailableError):
    """A store changed during every attempt to copy it."""

    code = "store-busy"


def copy_live_store(
    directory: Path, copy: Path, *, attempts: int = ATTEMPTS, step: Step = no_step
) -> None:
    """Fill the empty directory ``copy`` with the store in ``directory`` at one commit.

    A coordinator may run in ``directory``, but not in this process: SQLite would release its locks
    when this function closes the file. Nothing is written to ``directory``. The last commit in the
    copy may not have been synced or answered yet.

    ``attempts``: the copy is repeated if the store has changed meanwhile. ``step`` is called before
    each read of a part. Raises ``StoreBusyError``, and the refusals of files that other users can
    access.
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
            "a new store replaces the store in this directory, and the replacement has not ended",
            hint="start the coordinator, or let it run, until it has finished the replacement; then"
            " repeat the backup",
        )
    raise StoreBusyError(
        f"the store changed during each of {attempts} attempts to copy it",
        hint="try again at a time with fewer changes, or stop the coordinator",
    )


def _copied(disk: Disk, directory: Path, copy: Path) -> bool:
    """Copy all files once; return True if the copy is consistent."""
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

    A coordinator may append to the logs meanwhile: a file only grows. So a copy made after the copy
    of a journal has all leaves before the base of that journal. Raises ``UnavailableError``, and
    the refusals of files that other users can access.
    """
    for part in all_parts(disk, source):
        raw = disk.read(source / part, limit=LARGEST_OBJECT)
        if raw is not None:
            put_part(disk, target, part, raw)


class NotEmptyError(RefusedError):
    """The target of a backup or of a restore is not empty."""

    code = "not-empty"


async def make_backup(directory: Path, target: Path, verify: Verify) -> None:
    """Create ``target`` (0700) as a backup of the store in ``directory``.

    A coordinator may run in ``directory`` meanwhile. ``verify`` checks the copy. After any error,
    ``target`` is removed. Raises ``NotEmptyError``, ``StoreBusyError``, ``NotFoundError``, and the
    refusals of a damaged store.
    """

    async def fill(disk: Disk) -> None:
        copy_live_store(directory, target)
        # The order matters: a log is copied after its journal.
        copy_public_log(disk, directory, target)

    await make_backup_of(fill, target, verify)


async def make_backup_of(
    fill: Callable[[Disk], Awaitable[None]], target: Path, verify: Verify
) -> None:
    """Create ``target`` (0700) as a backup of the files that ``fill`` writes there.

    ``verify`` checks these files. After any error, ``target`` is removed.
    """
    disk = Disk()
    _make(target)
    try:
        await fill(disk)
        require_whole(disk, target, _require_store(target, await see_journal(target)))
        await verify(target)
        for name in _present(target):
            disk.sync_file(target / name)
        lines = [f"{_digest(target / name)}  {name}\n" for name in _present(target)]
        disk.write(target / DIGESTS, "".join(lines).encode("ascii"))
        disk.sync_name(target)
    except BaseException:
        shutil.rmtree(target, ignore_errors=True)
        raise


async def restore_backup(
    backup: Path, directory: Path, verify: Verify, *, step: Step = no_step
) -> None:
    """Restore ``backup`` into ``directory``, which must not have a store.

    Everything is checked before the commit, also by ``verify``. A crash leaves a complete store or
    no store. Raises ``NotEmptyError``, ``StoreLockedError``, ``StoreDamagedError``.
    """
    disk = Disk(step)
    disk.check_directory(backup)
    digests = _read_digests(disk, backup)
    lock = acquire(directory, disk)
    try:
        _require_empty(disk, directory)
        place = replacement.prepare(disk, directory, _ARCHIVE_NAME)
        try:
            begin("copying", sum(size_of(backup / name) for name in digests))
            for name, digest in digests.items():
                _copy_checked(disk, backup / name, place / name, digest)
            require_whole(disk, place, await see_journal(place))
            await verify(place)
            copy_public_log(disk, backup, directory)
            replacement.commit(disk, directory)
        except BaseException:
            if not replacement.is_committed(directory):
                replacement.abandon(disk, directory)
            raise
        replacement.finish(disk, directory)
    finally:
        lock.release()


def _make(target: Path) -> None:
    """Create the directory ``target`` (0700), which must not exist."""
    try:
        target.mkdir(mode=0o700)
    except FileExistsError:
        raise NotEmptyError(
            f"{target.name or target} already exists", hint="name a directory that does not exist"
        ) from None
    except OSError:
        raise StoreUnreadableError(
            f"the directory {target.name} cannot be created",
            hint="check that its parent directory exists and can be written to",
        ) from None


def _present(place: Path) -> list[str]:
    return [name for name in _FILES if os.path.lexists(place / name)]


def _require_store(place: Path, seen: JournalSeen | None) -> JournalSeen:
    if seen is not None:
        return seen
    ended = ": SealMode Disabled keeps none on disk" if os.path.lexists(place / TOMBSTONE) else ""
    raise NotFoundError(
        f"the directory has no store to back up{ended}",
        hint="name the state directory of a coordinator that has a manifest",
    )


def _require_empty(disk: Disk, directory: Path) -> None:
    present = list_store_files(directory, disk)
    if disk.check_file(directory / TOMBSTONE):
        present.append(TOMBSTONE)
    if present:
        raise NotEmptyError(
            f"the state directory is not empty: {', '.join(present)}",
            hint="restore into another directory, or move these files away first",
        )


def _read_digests(disk: Disk, backup: Path) -> dict[str, str]:
    """Return the digest of each file of the backup, in hex."""
    raw = disk.read(backup / DIGESTS, limit=_DIGESTS_LIMIT)
    if raw is None:
        raise NotFoundError(
            f"{DIGESTS} is missing: this is not a backup", hint="name the directory of a backup"
        )
    lines = [_LINE.fullmatch(line) for line in raw.splitlines()]
    found = {line[2].decode("ascii"): line[1].decode("ascii") for line in lines if line}
    if None in lines or len(found) != len(lines) or not _NEEDED <= set(found) <= set(_FILES):
        raise StoreDamagedError(
            f"{DIGESTS} does not have the lines that Keyhouse writes", hint=_ANOTHER
        )
    return found


_ANOTHER = "use another backup"


def _copy_checked(disk: Disk, source: Path, target: Path, digest: str) -> None:
    """Copy a file of the backup; refuse a file with another digest."""
    if not disk.check_file(source):
        raise StoreDamagedError(f"{source.name} is missing in the backup", hint=_ANOTHER)
    if copy_file(source, target, disks="both directories", durable=True) != digest:
        raise StoreDamagedError(
            f"{source.name} does not match its digest in {DIGESTS}", hint=_ANOTHER
        )


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

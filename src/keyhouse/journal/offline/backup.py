"""Backups: a directory with the files of a store at one commit, and their digests.

``SHA256SUMS`` has a line for each file, in the format of sha256sum. It is written last: a directory
without it is not a backup. It detects damage of a medium. It proves nothing against an attacker who
can write the backup: the tags of the records, which are verified when the store is opened, prove
that Keyhouse wrote them.

The files of the transparency log are in ``log/``, without digests: each start compares them
with the journal.

A backup has no keys of the platform, and not the file of a simulated machine, which is such a key.
"""

import hashlib
import os
import re
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

from keyhouse.base.durable_files import create, sync
from keyhouse.base.errors import NotFoundError, RefusedError
from keyhouse.base.progress import advance, begin
from keyhouse.journal.directory import replacement
from keyhouse.journal.directory.acquire import acquire, survey
from keyhouse.journal.directory.disk import Disk, size_of
from keyhouse.journal.directory.inspect import JournalSeen, see_journal
from keyhouse.journal.directory.layout import INDEX, JOURNAL, SEALED_KEY, TOMBSTONE
from keyhouse.journal.offline.archive import require_whole
from keyhouse.journal.offline.live_copy import copy_live_store, copy_public_log
from keyhouse.journal.store.protocol import Step, StoreDamagedError, StoreUnreadableError, no_step

DIGESTS = "SHA256SUMS"

Verify = Callable[[Path], Awaitable[None]]
"""Checks the files of a store in a directory, on a copy; raises if they must not be used."""

_FILES = (SEALED_KEY, INDEX, JOURNAL)
_NEEDED = {INDEX, JOURNAL}
_LINE = re.compile(rb"([0-9a-f]{64})  ([a-z_.]{1,40})")
_DIGESTS_LIMIT = 4096
_CHUNK = 1024 * 1024
_ASIDE = "before-restore"  # the archive name for a present store, which there is not


class NotEmptyError(RefusedError):
    """The target of a backup or of a restore is not empty."""

    code = "not-empty"


async def make_backup(directory: Path, target: Path, verify: Verify) -> None:
    """Make the directory ``target`` (0700), a backup of the store in ``directory``, or nothing.

    A coordinator may run there meanwhile. Raises ``NotEmptyError``, ``StoreBusyError``,
    ``NotFoundError``, and refusals of a store that is damaged.
    """

    async def fill(disk: Disk) -> None:
        copy_live_store(directory, target)
        copy_public_log(disk, directory, target)  # after the journal

    await make_backup_of(fill, target, verify)


async def make_backup_of(
    fill: Callable[[Disk], Awaitable[None]], target: Path, verify: Verify
) -> None:
    """Make the directory ``target`` (0700), a backup of what ``fill`` puts there, or nothing."""
    disk = Disk()
    _make(target)
    try:
        await fill(disk)
        require_whole(disk, target, _some(target, await see_journal(target)))
        await verify(target)
        for name in _present(target):
            disk.sync_file(target / name)
        lines = [f"{_digest(target / name)}  {name}\n" for name in _present(target)]
        disk.write(target / DIGESTS, "".join(lines).encode("ascii"))
        disk.sync_directory(target.parent)
    except BaseException:
        shutil.rmtree(target, ignore_errors=True)
        raise


async def restore_backup(
    backup: Path, directory: Path, verify: Verify, *, step: Step = no_step
) -> None:
    """Restore ``backup`` into ``directory``, which has no store; or leave it without one.

    Everything is checked before the commit, which is that of any new store: a crash leaves a
    complete store or none. Raises ``NotEmptyError``, ``StoreLockedError``, ``StoreDamagedError``.
    """
    disk = Disk(step)
    disk.check_directory(backup)
    digests = _read_digests(disk, backup)
    lock = acquire(directory, disk)
    try:
        _require_empty(disk, directory)
        place = replacement.prepare(disk, directory, _ASIDE)
        try:
            begin("copying", sum(size_of(backup / name) for name in digests))
            for name, digest in digests.items():
                _bring(disk, backup / name, place / name, digest)
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
    """Make the directory ``target`` (0700), which must not be there."""
    try:
        target.mkdir(mode=0o700)
    except FileExistsError:
        raise NotEmptyError(
            f"{target.name or target} already exists", hint="name a directory to be made"
        ) from None
    except OSError:
        raise StoreUnreadableError(
            f"{target.name} cannot be made", hint="look at the directory it is to be in"
        ) from None


def _present(place: Path) -> list[str]:
    return [name for name in _FILES if os.path.lexists(place / name)]


def _some(place: Path, seen: JournalSeen | None) -> JournalSeen:
    if seen is not None:
        return seen
    ended = ": its deployment keeps none" if os.path.lexists(place / TOMBSTONE) else ""
    raise NotFoundError(
        f"there is no store to back up{ended}",
        hint="name the state directory of a coordinator that has a manifest",
    )


def _require_empty(disk: Disk, directory: Path) -> None:
    present = survey(directory, disk)
    if disk.check_file(directory / TOMBSTONE):
        present.append(TOMBSTONE)
    if present:
        raise NotEmptyError(
            f"the state directory is not empty: {', '.join(present)}",
            hint="restore into another directory, or move these files away first",
        )


def _read_digests(disk: Disk, backup: Path) -> dict[str, str]:
    """Return the digest of each file of the backup, hex."""
    raw = disk.read(backup / DIGESTS, limit=_DIGESTS_LIMIT)
    if raw is None:
        raise NotFoundError(f"there is no {DIGESTS}: this is not a backup", hint="name a backup")
    lines = [_LINE.fullmatch(line) for line in raw.splitlines()]
    found = {line[2].decode("ascii"): line[1].decode("ascii") for line in lines if line}
    if None in lines or len(found) != len(lines) or not _NEEDED <= set(found) <= set(_FILES):
        raise StoreDamagedError(f"{DIGESTS} does not say what Keyhouse writes", hint=_ANOTHER)
    return found


_ANOTHER = "use another backup"


def _bring(disk: Disk, source: Path, target: Path, digest: str) -> None:
    """Copy a file of the backup; refuse what does not have ``digest``."""
    if not disk.check_file(source):
        raise StoreDamagedError(f"{source.name} is missing in the backup", hint=_ANOTHER)
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    found = hashlib.sha256()
    try:
        with os.fdopen(os.open(source, flags), "rb") as original, create(target) as copy:
            while chunk := original.read(_CHUNK):
                found.update(chunk)
                copy.write(chunk)
                advance(len(chunk))
            sync(copy)
    except OSError:
        raise StoreUnreadableError(
            f"{source.name} cannot be copied", hint="look at the disks of both directories"
        ) from None
    if found.hexdigest() != digest:
        raise StoreDamagedError(f"{source.name} is not what was backed up", hint=_ANOTHER)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

"""Copy a store to inspect it: opening a store changes the store."""

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from keyhouse.base.durable_files import create, sync, without_links
from keyhouse.base.progress import advance, begin
from keyhouse.journal.directory import replacement
from keyhouse.journal.directory.acquire import refuse_rollback_journal, unused
from keyhouse.journal.directory.disk import INCOMING, STORE_FILES, TOMBSTONE, Disk, size_of
from keyhouse.journal.directory.replacement_plan import PLAN, PLANNED
from keyhouse.journal.store.protocol import StoreUnreadableError

_CHUNK = 1024 * 1024  # bytes of one read, chosen


@contextmanager
def private_copy(directory: Path) -> Iterator[Path]:
    """Yield a copy (0700) of the store in ``directory``, and remove the copy afterwards.

    Nothing is written to ``directory``. The copy completes a change that a crash has interrupted.
    All secrets in the copy are encrypted, as in the store. Raises ``StoreLockedError`` while a
    coordinator has the directory, and the refusals of files that other users can access.
    """
    disk = Disk()
    with tempfile.TemporaryDirectory(prefix="keyhouse-") as name:
        copy = Path(name) / "store"
        with unused(directory):
            folders = _folders(disk, directory)
            files = [folder / name for folder in folders for name in STORE_FILES]
            begin("copying", sum(map(size_of, files)))
            for folder in folders:
                _copy(disk, folder, copy / folder.relative_to(directory))
        replacement.finish(disk, copy)
        yield copy


def _folders(disk: Disk, directory: Path) -> list[Path]:
    """Return the directories of the store: several during the replacement of a store."""
    folders = [directory]
    for folder in (directory / INCOMING, replacement.origin(disk, directory)):
        if folder is not None and folder not in folders and os.path.lexists(folder):
            folders.append(folder)
    return folders


def _copy(disk: Disk, source: Path, target: Path) -> None:
    disk.check_directory(source)
    refuse_rollback_journal(source)
    target.parent.mkdir(mode=0o700, exist_ok=True)  # creates archive/
    target.mkdir(mode=0o700)
    for name in (*STORE_FILES, TOMBSTONE, PLAN, PLANNED):
        if disk.check_file(source / name):
            copy_file(source / name, target / name, disks="it and of TMPDIR", durable=False)


def copy_file(source: Path, target: Path, *, disks: str, durable: bool) -> str:
    """Copy ``source`` to the new file ``target``; return the SHA-256 of the content, in hex.

    ``disks``: text about the disks of both files, for the hint of an error. Without ``durable``,
    ``target`` is not synced.
    """
    found = hashlib.sha256()
    try:
        with open(source, "rb", opener=without_links) as original, create(target) as copy:
            while chunk := original.read(_CHUNK):
                found.update(chunk)
                copy.write(chunk)
                advance(len(chunk))
            if durable:
                sync(copy)
    except OSError:
        raise StoreUnreadableError(
            f"{source.name} cannot be copied", hint=f"check the disks of {disks}"
        ) from None
    return found.hexdigest()

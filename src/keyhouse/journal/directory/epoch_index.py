"""The recovery index of the journal's epoch: of a present one and the next, the one that counts."""

from pathlib import Path

from keyhouse.journal.directory.disk import Disk
from keyhouse.journal.directory.found import mixed
from keyhouse.journal.directory.index_file import FILE_LIMIT, IndexFile
from keyhouse.journal.directory.replacement import INDEX, JOURNAL, NEXT_INDEX
from keyhouse.journal.store.protocol import EpochStart, StoreDamaged

__all__ = ["read_index", "settle_index"]


def read_index(disk: Disk, folder: Path, start: EpochStart) -> bytes:
    """Return the content of the index that belongs to the epoch that begins at ``start``.

    Raises ``StoreDamaged`` if there is none, ``MixedDeployments`` if one is another store's.
    """
    found: dict[str, IndexFile] = {}
    for name in (INDEX, NEXT_INDEX):
        raw = disk.read(folder / name, limit=FILE_LIMIT)
        if raw is not None:
            found[name] = IndexFile.decode(raw, name=name)
            if found[name].store_id != start.store_id:
                raise mixed(name, JOURNAL)
    if INDEX not in found:
        raise StoreDamaged("recovery_index is missing", hint="restore it from a backup")
    for index in found.values():
        if index.epoch == start.epoch:
            return index.content
    raise StoreDamaged(
        f"recovery_index belongs to epoch {found[INDEX].epoch}, journal.db is at epoch "
        f"{start.epoch}",
        hint="restore the state directory from one backup",
    )


def settle_index(disk: Disk, folder: Path, epoch: int) -> None:
    """Keep the index of ``epoch`` only, of a present one and the next."""
    following = folder / NEXT_INDEX
    raw = disk.read(following, limit=FILE_LIMIT)
    if raw is None:
        return
    if IndexFile.decode(raw, name=NEXT_INDEX).epoch == epoch:
        disk.rename(following, folder / INDEX)
    else:
        disk.remove(following)
    disk.sync_directory(folder)

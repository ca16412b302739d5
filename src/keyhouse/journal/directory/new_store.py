"""Building a whole store aside, which then takes the place of the present one."""

import os
from collections.abc import Iterable
from pathlib import Path

from keyhouse.base.secret import Secret
from keyhouse.journal.chain import Position
from keyhouse.journal.directory.disk import Disk
from keyhouse.journal.directory.index_file import IndexFile
from keyhouse.journal.directory.key_file import KeyFile
from keyhouse.journal.directory.off_loop import off_loop
from keyhouse.journal.directory.replacement import INDEX, JOURNAL, SEALED_KEY
from keyhouse.journal.directory.sealing import Contents, EpochKey
from keyhouse.journal.journal import Journal
from keyhouse.journal.store.protocol import StoreUnreadable
from keyhouse.journal.store.sqlite import SqliteStore

__all__ = ["build_store"]


async def build_store(
    place: Path,
    disk: Disk,
    key_file: KeyFile,
    *,
    store_id: bytes,
    dek: Secret,
    base: Iterable[bytes],
    policy: str,
    recovery_index: bytes,
    after: Position | None,
) -> None:
    """Make a whole store in ``place``: everything synced, no WAL left. As ``Home.establish``."""
    store = await SqliteStore.open(place / JOURNAL, step=disk.step)
    try:
        journal = await Journal.create(store, store_id=store_id, dek=dek, base=base, after=after)
    finally:
        await store.close()
    position = journal.position
    key = EpochKey(position.epoch, policy, dek)
    sealed = await key_file.seal(Contents((key,), position), store_id)

    def write() -> None:
        if os.path.lexists(place / f"{JOURNAL}-wal"):
            raise StoreUnreadable("journal.db could not be completed", hint="see its disk")
        disk.sync_file(place / JOURNAL)
        disk.write(place / INDEX, IndexFile(store_id, position.epoch, recovery_index).encode())
        disk.write(place / SEALED_KEY, sealed)

    await off_loop(write)

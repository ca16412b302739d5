"""The store of a state directory: built as a whole, and kept consistent with its journal."""

import os
from contextlib import suppress
from pathlib import Path

import msgspec

from keyhouse.base.errors import KeyhouseError, UnavailableError
from keyhouse.journal.directory.disk import INDEX, JOURNAL, NEXT_INDEX, SEALED_KEY, Disk, off_loop
from keyhouse.journal.directory.index_file import IndexFile, settle_index
from keyhouse.journal.directory.sealing import Contents, EpochKey, KeyFile
from keyhouse.journal.directory.storage_base import NewEpoch, NewStore, SealedStore
from keyhouse.journal.journal import Journal
from keyhouse.journal.store.protocol import Position, StoreUnreadableError
from keyhouse.journal.store.sqlite import SqliteStore


class OpenStore(SealedStore):
    """An open store: keeps sealed data key and recovery index consistent with its journal.

    ``key``: the data key with its seal mode. The seal mode is empty after a recovery, until this
    machine seals the data key. Only the storage that opened the store uses this object.
    """

    def __init__(
        self,
        folder: Path,
        disk: Disk,
        key_file: KeyFile,
        *,
        store: SqliteStore,
        journal: Journal,
        key: EpochKey,
        index: bytes,
    ) -> None:
        super().__init__(journal)
        self.store = store
        self._folder = folder
        self._disk = disk
        self._key_file = key_file
        self._key = key
        self._index = index
        self.line = key.line
        self.is_due = False  # the seal also has the key of another epoch

    @property
    def is_sealed(self) -> bool:
        """True if the next start on this platform opens the store without a recovery."""
        return bool(self._key.policy)

    async def reseal(self, policy: str) -> None:
        """Seal the data key for this machine under the seal mode ``policy``."""
        key = msgspec.structs.replace(self._key, policy=policy)
        await self._write_key(key)
        self._key = msgspec.structs.replace(key, line=self.line)
        # The key is sealed, so a failure here is not an error. ``write_head`` settles the index,
        # too.
        with suppress(UnavailableError):
            await self.settle_index()

    async def conclude_opening(self) -> None:
        """Write the seal again if it has the key of another epoch, or lacks the present line."""
        if self.is_sealed and (self.is_due or self._key.line != self.line):
            await self.write_head()
            self.is_due = False

    async def begin_epoch(self, new: NewEpoch) -> Position:
        """Replace all records of the store by the epoch ``new``; return once this is durable.

        The notes in ``new`` are ignored, because a state directory has no replicas.
        """
        key = self._key
        dek = key.dek if new.dek is None else new.dek
        following = EpochKey(key.epoch + 1, new.policy or key.policy, dek, new.line)
        index = self._index if new.recovery_index is None else new.recovery_index
        await self._announce(following, index)
        self._following = following, index
        return await self._concluded(self.journal.begin_epoch(new.base, dek=dek))

    async def write_head(self) -> None:
        """Seal the position of the journal, with the key of its epoch only."""
        await self.settle_index()
        await self._write_key(self._key)

    async def settle_index(self) -> None:
        """Remove a recovery index of any other epoch than the journal's epoch."""
        await off_loop(settle_index, self._disk, self._folder, self._key.epoch)

    async def close(self) -> None:
        """Close the journal of the open store."""
        await self.store.close()

    async def _announce(self, following: EpochKey, index: bytes) -> None:
        """Make key and index of the next epoch durable, beside the present key and index."""
        raw = IndexFile(self.journal.store_id, following.epoch, index).encode()
        try:
            await off_loop(self._disk.write, self._folder / NEXT_INDEX, raw)
            await self._write_key(self._key, following)
        except Exception:
            with suppress(KeyhouseError):
                await self._withdraw()
            raise

    def _follow(self, key: EpochKey, index: bytes) -> None:
        self._key, self._index = key, index

    async def _withdraw(self) -> None:
        await self._write_key(self._key)
        await self.settle_index()

    async def _write_key(self, present: EpochKey, *following: EpochKey) -> None:
        """Write the file ``sealed_key`` with the data keys ``present`` and ``following``.

        The seal mode is the seal mode of the last key. The file also contains the length and the
        last hash of the present line.
        """
        present = msgspec.structs.replace(present, line=self.line)
        contents = Contents((present, *following), self.journal.position)
        await self._key_file.write(contents, self.journal.store_id)
        self._key = msgspec.structs.replace(self._key, line=self.line)


async def build_store(place: Path, disk: Disk, key_file: KeyFile, new: NewStore) -> None:
    """Build the store ``new`` in the directory ``place``, complete, synced and without a WAL.

    ``key_file`` seals the data key. No file counts before the caller commits the store. So each
    file is synced only once, when the file is complete.
    """
    store = await SqliteStore.open(place / JOURNAL, step=disk.step, fence=disk.fence, synced=False)
    try:
        journal = await Journal.create(
            store, store_id=new.store_id, dek=new.dek, base=new.base, after=new.after
        )
    finally:
        await store.close()
    position = journal.position
    key = EpochKey(position.epoch, new.policy, new.dek, new.line)
    sealed = await key_file.seal(Contents((key,), position), new.store_id)
    index = IndexFile(new.store_id, position.epoch, new.recovery_index).encode()

    def write() -> None:
        if os.path.lexists(place / f"{JOURNAL}-wal"):
            raise StoreUnreadableError(
                f"the new {JOURNAL} is not closed: the file {JOURNAL}-wal remains",
                hint="check space and errors of the disk with the state directory, then try again",
            )
        disk.write_new(place / INDEX, index)
        disk.write_new(place / SEALED_KEY, sealed)
        for name in (JOURNAL, INDEX, SEALED_KEY):  # the first sync writes all of them
            disk.sync_file(place / name)

    await off_loop(write)

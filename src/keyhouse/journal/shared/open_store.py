"""Keep the sealed key of this machine consistent with a shared journal.

Every replica can begin epochs. So the epoch and the data key of a seal always come from the
journal. This machine stores its seal twice: in the database, and in a file of its directory.

The name of a machine is derived from its sealing key. So a machine finds its seal in the database
also with another directory. If the database is rolled back, the file still has the newest seal: a
start uses the newest of these seals.
"""

from collections.abc import Callable
from typing import Final

import msgspec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from keyhouse.base.secret import Secret
from keyhouse.journal.directory import sealing
from keyhouse.journal.directory.disk import off_loop
from keyhouse.journal.directory.load_result import MixedDeploymentsError, Vouched
from keyhouse.journal.directory.sealing import Contents, EpochKey, KeyFile, SealedElsewhereError
from keyhouse.journal.directory.storage_base import NewEpoch, SealedStore
from keyhouse.journal.journal import Journal
from keyhouse.journal.store.postgres_database import PostgresDatabase
from keyhouse.journal.store.protocol import Beside, Position

_POLICIES: Final = ("ProductKey", "UniqueKey")


class Unsealed(msgspec.Struct, frozen=True):
    """The content of a seal that this machine can open.

    A seal can have data keys of several epochs. ``vouched``: for each of these keys, the
    statement in the seal about the line of the root; None without a statement.
    """

    contents: Contents
    vouched: tuple[Vouched | None, ...]


class MachineKeys:
    """Reads and writes the sealed keys of this machine."""

    def __init__(
        self, database: PostgresDatabase, file: KeyFile, sealing_key: Callable[[str], Secret]
    ) -> None:
        """Store the arguments. ``file``: the sealed key in the directory of this machine.

        ``sealing_key`` is as for ``KeyFile``. The name of this machine derives from its result.
        """
        self._database = database
        self._file = file
        self._sealing_key = sealing_key

    async def has_file(self) -> bool:
        """Return whether the directory has a sealed key."""
        return await off_loop(self._file.read) is not None

    async def read(self, store_id: bytes) -> list[Unsealed]:
        """Return all seals of the store ``store_id`` that this machine can open.

        Raises ``MixedDeploymentsError`` for a file of another store, ``StoreDamagedError`` and
        ``WrongPlatformError``.
        """
        file = await off_loop(self._file.read)
        if file is not None and file.store_id != store_id:
            raise MixedDeploymentsError(
                "sealed_key and the database belong to different deployments",
                hint="give the right --store or --data-dir; to give up the store of sealed_key,"
                " move the file away",
            )
        machines = [await self._machine(policy, store_id) for policy in _POLICIES]
        rows = await self._database.sealed(store_id, machines)
        found = []
        for sealed in (*([] if file is None else [file]), *map(sealing.parse, rows)):
            try:
                contents = await self._file.unseal(sealed)
            except SealedElsewhereError:
                continue
            if sealed.store_id == store_id:
                says = [await self._file.vouched(sealed, contents, key) for key in contents.keys]
                found.append(Unsealed(contents, tuple(says)))
        return found

    async def rows(self, contents: Contents, store_id: bytes) -> tuple[tuple[bytes, bytes], ...]:
        """Return the name of this machine and its seal of ``contents``, for the database.

        ``store_id`` identifies the store of the sealed keys.
        """
        machine = await self._machine(contents.keys[-1].policy, store_id)
        return ((machine, await self._file.seal(contents, store_id)),)

    async def write_file(self, contents: Contents, store_id: bytes) -> None:
        """Seal ``contents``, and write the file of this machine, durably and atomically."""
        await self._file.write(contents, store_id)

    async def write(self, contents: Contents, store_id: bytes) -> None:
        """Write ``contents`` to the file and the database.

        The last key in ``contents`` is the data key of the journal's epoch.
        """
        await self._file.write(contents, store_id)
        for machine, raw in await self.rows(contents, store_id):
            await self._database.seal(store_id, machine, raw, epoch=contents.keys[-1].epoch)

    async def _machine(self, policy: str, store_id: bytes) -> bytes:
        key = await off_loop(self._sealing_key, policy)
        derivation = HKDF(algorithm=SHA256(), length=16, salt=store_id, info=b"keyhouse machine v1")
        return derivation.derive(key.reveal())


class NoMachineKeys:
    """The keys of a platform that cannot seal. Each start needs the key from another replica."""

    async def has_file(self) -> bool:
        """Return False: this machine has no file with a sealed key."""
        return False

    async def read(self, store_id: bytes) -> list[Unsealed]:
        """Return no sealed key of this machine for the store: none exists here."""
        del store_id
        return []

    async def rows(self, contents: Contents, store_id: bytes) -> tuple[tuple[bytes, bytes], ...]:
        """Return no seal for the database: this machine seals no key."""
        del contents, store_id
        return ()

    async def write_file(self, contents: Contents, store_id: bytes) -> None:
        """Do nothing: this machine seals no key."""

    async def write(self, contents: Contents, store_id: bytes) -> None:
        """Do nothing: this machine seals no key."""


SealedKeys = MachineKeys | NoMachineKeys


class OpenSharedStore(SealedStore):
    """The open store of a ``DatabaseStorage``.

    ``policy``: the seal mode; empty after a recovery or a hand-off, until ``reseal``.
    """

    def __init__(self, journal: Journal, keys: SealedKeys, *, policy: str, index: bytes) -> None:
        super().__init__(journal)
        self._keys = keys
        self._policy = policy
        self._index = index

    @property
    def is_sealed(self) -> bool:
        """True if the next start on this machine opens the store without a recovery."""
        return bool(self._policy)

    async def reseal(self, policy: str) -> None:
        """Seal the data key of the journal's epoch under the seal mode ``policy``."""
        before, self._policy = self._policy, policy
        try:
            await self.write_head()
        except BaseException:
            self._policy = before
            raise

    async def conclude_opening(self) -> None:
        """Write the seal, because a seal of another epoch may have opened the store."""
        if self.is_sealed:
            await self.write_head()

    async def begin_epoch(self, new: NewEpoch) -> Position:
        """Replace all records of the store by the epoch ``new``; return once this is durable.

        Before the commit, the file of this machine receives the present and the new key. The
        database receives the new key in the transaction of the epoch.
        """
        journal = self.journal
        dek = journal.dek if new.dek is None else new.dek
        epoch = journal.position.epoch + 1
        following = EpochKey(epoch, new.policy or self._policy, dek, new.line)
        index = self._index if new.recovery_index is None else new.recovery_index
        both = Contents((self._key(), following), journal.position)
        await self._keys.write_file(both, journal.store_id)
        alone = Contents((following,), journal.position)
        rows = await self._keys.rows(alone, journal.store_id)
        self._following = following, index
        beside = Beside(index, rows, new.notes)
        return await self._concluded(journal.begin_epoch(new.base, dek=dek, beside=beside))

    async def write_head(self) -> None:
        """Seal the position of the journal, with the key of its epoch only."""
        contents = Contents((self._key(),), self.journal.position)
        await self._keys.write(contents, self.journal.store_id)

    def _key(self) -> EpochKey:
        return EpochKey(self.journal.position.epoch, self._policy, self.journal.dek, self.line)

    def _follow(self, key: EpochKey, index: bytes) -> None:
        self._policy, self._index = key.policy, index

    async def _withdraw(self) -> None:
        contents = Contents((self._key(),), self.journal.position)
        await self._keys.write_file(contents, self.journal.store_id)

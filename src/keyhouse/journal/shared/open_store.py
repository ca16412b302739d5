"""An open store that others share: keeps the sealed key of this machine in step with its journal.

Others begin epochs as well. So the epoch and its data key are those of the journal, always.
"""

from collections.abc import Iterable

from keyhouse.base.secret import Secret
from keyhouse.journal.directory.in_step import StoreInStep
from keyhouse.journal.directory.sealing import Contents, EpochKey
from keyhouse.journal.journal import Journal
from keyhouse.journal.shared.machine_keys import SealedKeys
from keyhouse.journal.store.records import Beside, Note, Position


class OpenSharedStore(StoreInStep):
    """Used by ``SharedHome`` only. ``policy`` is empty after a recovery, until ``reseal``."""

    def __init__(self, journal: Journal, keys: SealedKeys, *, policy: str, index: bytes) -> None:
        super().__init__(journal)
        self._keys = keys
        self._policy = policy
        self._index = index

    @property
    def is_sealed(self) -> bool:
        """Whether the next start on this machine opens the store without recovery."""
        return bool(self._policy)

    async def reseal(self, policy: str) -> None:
        """Seal the key of the journal's epoch under ``policy``."""
        before, self._policy = self._policy, policy
        try:
            await self.write_head()
        except BaseException:
            self._policy = before
            raise

    async def begin_epoch(
        self,
        base: Iterable[bytes],
        *,
        dek: Secret | None,
        policy: str | None,
        recovery_index: bytes | None,
        notes: tuple[Note, ...],
    ) -> Position:
        """Return once ``base`` has replaced everything; None: key, policy, index stay.

        The file has both keys before; the database gets the new one in the epoch's transaction.
        """
        journal = self.journal
        key = journal.dek if dek is None else dek
        following = EpochKey(journal.position.epoch + 1, policy or self._policy, key)
        index = self._index if recovery_index is None else recovery_index
        both = Contents((self._key(), following), journal.position)
        await self._keys.write_file(both, journal.store_id)
        alone = Contents((following,), journal.position)
        rows = await self._keys.rows(alone, journal.store_id)
        self._following = following, index
        beside = Beside(index, rows, notes)
        return await self._concluded(journal.begin_epoch(base, dek=key, beside=beside))

    async def write_head(self) -> None:
        """Seal the position of the journal, with the key of its epoch only."""
        contents = Contents((self._key(),), self.journal.position)
        await self._keys.write(contents, self.journal.store_id)

    def _key(self) -> EpochKey:
        return EpochKey(self.journal.position.epoch, self._policy, self.journal.dek)

    def _follow(self, key: EpochKey, index: bytes) -> None:
        self._policy, self._index = key.policy, index

    async def _withdraw(self) -> None:
        contents = Contents((self._key(),), self.journal.position)
        await self._keys.write_file(contents, self.journal.store_id)

"""What homes do alike: calls wait for each other, and the sealed key fits the journal."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Iterable
from contextlib import suppress
from typing import Generic, TypeVar

from keyhouse.base.errors import BrokenError, KeyhouseError, UnavailableError
from keyhouse.base.secret import Secret
from keyhouse.journal.directory.sealing import EpochKey
from keyhouse.journal.journal import Journal
from keyhouse.journal.store.records import Note, Position


class StoreInStep(ABC):
    """An open store: keeps the sealed key consistent with its journal. Used by its home only."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self._following: tuple[EpochKey, bytes] | None = None  # and index, of an epoch that begins

    @property
    @abstractmethod
    def is_sealed(self) -> bool:
        """Whether the next start on this machine opens the store without recovery."""

    @abstractmethod
    async def reseal(self, policy: str) -> None:
        """Seal the key under ``policy``."""

    @abstractmethod
    async def begin_epoch(
        self,
        base: Iterable[bytes],
        *,
        dek: Secret | None,
        policy: str | None,
        recovery_index: bytes | None,
        notes: tuple[Note, ...],
    ) -> Position:
        """Return once ``base`` has replaced everything; None: key, policy, index stay."""

    async def settle(self) -> Position:
        """Find out about the journal's last write, as ``Journal.settle``."""
        return await self._concluded(self.journal.settle())

    @abstractmethod
    async def write_head(self) -> None:
        """Seal the position of the journal, with the key of its epoch only."""

    async def _concluded(self, write: Coroutine[None, None, Position]) -> Position:
        """Keep the key and the index that fit the outcome of ``write``.

        While it is unknown whether the epoch began, both keys are kept: ``settle`` or the next load
        decides by the journal. What is not cleaned up now is harmless, and the next ``write_head``
        or ``load`` does it.
        """
        try:
            return await write
        finally:
            following = self._following
            if self.journal.settled and following is not None:
                self._following = None
                if following[0].epoch == self.journal.position.epoch:
                    self._follow(*following)
                    with suppress(UnavailableError):
                        await self.write_head()
                else:
                    with suppress(KeyhouseError):
                        await self._withdraw()

    @abstractmethod
    def _follow(self, key: EpochKey, index: bytes) -> None:
        """Have these as those of the journal's epoch."""

    @abstractmethod
    async def _withdraw(self) -> None:
        """Keep what fits the present epoch only: the one that was prepared has not begun."""


S = TypeVar("S", bound=StoreInStep)


class HomeInTurn(ABC, Generic[S]):
    """A home whose calls wait for each other. Its methods are those of ``Home``."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._held: S | None = None

    async def reseal(self, policy: str) -> None:
        """Seal the key for this machine: the next start needs no recovery."""
        async with self._turn:
            await self._require_open().reseal(policy)

    async def relock(self) -> None:
        """Close a recovered store that was not sealed; what is kept does not change."""
        async with self._turn:
            self._require_replaceable()
            await self._close_store()

    async def begin_epoch(
        self,
        base: Iterable[bytes],
        *,
        dek: Secret | None = None,
        policy: str | None = None,
        recovery_index: bytes | None = None,
        notes: tuple[Note, ...] = (),
    ) -> Position:
        """Return once ``base`` has replaced everything; None leaves key, policy or index unchanged.

        The sealed key has both data keys before the commit, so that a crash at any moment leaves a
        journal and a key that opens it. Errors as for ``Journal.append``.
        """
        async with self._turn:
            return await self._require_sealed().begin_epoch(
                base, dek=dek, policy=policy, recovery_index=recovery_index, notes=notes
            )

    async def settle(self) -> Position:
        """Find out about the last write, as ``Journal.settle``, and keep the key that fits it."""
        async with self._turn:
            return await self._require_sealed().settle()

    async def write_head(self) -> None:
        """Seal the position of the journal: later starts refuse a journal that ends before it."""
        async with self._turn:
            await self._require_sealed().write_head()

    @abstractmethod
    async def _close_store(self) -> None:
        """Release the store, if one is open."""

    def _require_replaceable(self) -> None:
        if self._held is not None and self._held.is_sealed:
            raise BrokenError("the store is open: it cannot be replaced or recovered")

    def _require_open(self) -> S:
        if self._held is None:
            raise BrokenError("the store is not open")
        return self._held

    def _require_sealed(self) -> S:
        held = self._require_open()
        if not held.is_sealed:
            raise BrokenError("the store was recovered and has not been sealed yet")
        return held

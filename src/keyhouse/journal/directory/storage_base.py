"""The ``StateStorage`` interface, and behaviour common to its implementations.

A storage holds the state of a deployment: the journal, the sealed data key and the recovery index.
Calls run one after the other. At any moment, the sealed key must fit the journal. An epoch change
takes three steps: the seal receives the next key beside the present key, then the journal begins
the epoch, then the seal drops the old key. So a crash at any moment leaves a journal and a key for
this journal.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Iterable
from contextlib import suppress
from typing import Generic, TypeAlias, TypeVar

import msgspec

from keyhouse.base.errors import BrokenError, KeyhouseError, UnavailableError
from keyhouse.base.secret import Secret
from keyhouse.journal.directory.load_result import Fresh, LineMark, Locked, Opened
from keyhouse.journal.directory.log_files import LogParts
from keyhouse.journal.directory.sealing import EpochKey
from keyhouse.journal.journal import Journal
from keyhouse.journal.store.protocol import Note, Position


class NewStore(msgspec.Struct, frozen=True):
    """The content of a new store.

    ``after``: the end of a journal in memory, continued by this store; None: a new journal.
    """

    store_id: bytes
    dek: Secret
    base: Iterable[bytes]
    policy: str
    recovery_index: bytes
    after: Position | None
    line: LineMark | None = None  # the proven line of the root


class NewEpoch(msgspec.Struct, frozen=True):
    """The content of a new epoch. None means no change of key, policy or index."""

    base: Iterable[bytes]
    dek: Secret | None
    policy: str | None
    recovery_index: bytes | None
    notes: tuple[Note, ...]
    line: LineMark | None = None  # the proven line of the root


class SealedStore(ABC):
    """An open store: keeps the sealed key consistent with the journal.

    Only the storage that opened the store uses this object.
    """

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.line: LineMark | None = None  # the line in each seal from now on
        # Key and index of an epoch that begins.
        self._following: tuple[EpochKey, bytes] | None = None

    @property
    @abstractmethod
    def is_sealed(self) -> bool:
        """True if the next start on this machine opens the store without a recovery."""

    @abstractmethod
    async def reseal(self, policy: str) -> None:
        """Seal the data key for this machine under the seal mode ``policy``."""

    @abstractmethod
    async def begin_epoch(self, new: NewEpoch) -> Position:
        """Replace all records of the store by the epoch ``new``; return once this is durable."""

    @abstractmethod
    async def conclude_opening(self) -> None:
        """Write a new seal, if the seal that opened the store is outdated."""

    async def settle(self) -> Position:
        """Determine the outcome of the journal's last write, as ``Journal.settle``."""
        return await self._concluded(self.journal.settle())

    @abstractmethod
    async def write_head(self) -> None:
        """Seal the position of the journal, with the key of its epoch only."""

    async def _concluded(self, write: Coroutine[None, None, Position]) -> Position:
        """Run ``write``, which may begin an epoch. Then retain the key and index of its outcome.

        While the outcome is unknown, the seal has the old and the new key. ``settle`` or the next
        load compares the seal with the journal. An outdated key or index does no harm, and the next
        ``write_head`` or ``load`` removes it.
        """
        try:
            return await write
        finally:
            following = self._following
            if self.journal.settled and following is not None:
                self._following = None
                if following[0].epoch == self.journal.position.epoch:
                    self._follow(*following)
                    self.line = following[0].line
                    with suppress(UnavailableError):
                        await self.write_head()
                else:
                    with suppress(KeyhouseError):
                        await self._withdraw()

    @abstractmethod
    def _follow(self, key: EpochKey, index: bytes) -> None:
        """Use ``key`` and ``index`` as those of the journal's epoch."""

    @abstractmethod
    async def _withdraw(self) -> None:
        """Drop the prepared key and index, because their epoch has not begun."""


S_co = TypeVar("S_co", bound=SealedStore, covariant=True)


class SerialStorage(ABC, Generic[S_co]):
    """The journal of a deployment, with its sealed key and its recovery index.

    A storage belongs to a single process; its calls wait for each other. Errors are those of
    ``Journal`` and of the implementation.
    """

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._held: S_co | None = None
        self._closed = False

    async def load(self) -> Fresh | Locked | Opened:
        """Read the stored state. A repeated call reads everything again.

        ``Fresh``: there is no store. ``Locked``: this machine does not have the data key. A storage
        in a database waits until this process may serve the store. Each fault has its own error:
        ``StoreDamagedError``, ``StoreNewerError``, ``StoreEmptyError``, ``StoreEndedError``,
        ``RolledBackError``, ``WrongPlatformError``, ``MixedDeploymentsError``,
        ``InsecureFileError``.
        """
        async with self._turn:
            await self._close_store()
            return await self._load()

    async def establish(
        self,
        *,
        store_id: bytes,
        dek: Secret,
        base: Iterable[bytes],
        policy: str,
        recovery_index: bytes = b"",
        after: Position | None = None,
        line: LineMark | None = None,
    ) -> Journal:
        """Return the durable journal of a new deployment with ``base``. Archives an old journal.

        ``after``: the position of a journal in memory, which continues in this storage; None: a new
        journal. ``store_id``: the id of the journal in memory, or 16 new random bytes. ``policy``:
        the seal mode of the data key ``dek``. ``line``: the proven line of the root. Refused while
        a store is open and sealed. ``UnavailableError``: nothing changed. ``BrokenError``: a
        restart determines which store remains. ``OutcomeUnknownError``: ``load`` or a restart
        determines which store remains.
        """
        async with self._turn:
            self._require_replaceable()
            await self._close_store()
            return await self._establish(
                NewStore(store_id, dek, base, policy, recovery_index, after, line)
            )

    @abstractmethod
    async def archive(self) -> None:
        """Move the stored state away, for a deployment that keeps its state in memory."""

    @abstractmethod
    async def destroy(self, time: int) -> None:
        """Erase the open store at ``time``, in microseconds since 1970."""

    async def recover(self, dek: Secret) -> Opened:
        """Open a locked store with a recovered data key. Nothing is written or sealed yet.

        Raises ``WrongKeyError`` for a key of another journal. Call ``reseal`` after all recovered
        data is checked against the manifest in the journal.
        """
        async with self._turn:
            self._require_replaceable()
            await self._close_store()
            return await self._recover(dek)

    async def seal_line(self, line: LineMark | None) -> None:
        """Put the proven ``line`` into each seal from now on. Write an outdated seal again.

        ``line`` is None for a state without a line. If the disk is full, the next ``write_head``
        writes the seal.
        """
        async with self._turn:
            held = self._require_open()
            held.line = line
            with suppress(UnavailableError):
                await held.conclude_opening()

    def follow_line(self, line: LineMark | None) -> None:
        """Put the proven ``line`` into all later seals."""
        if self._held is not None:
            self._held.line = line

    async def reseal(self, policy: str) -> None:
        """Seal the data key for this machine under the seal mode ``policy``.

        The next start then needs no recovery.
        """
        async with self._turn:
            await self._require_open().reseal(policy)

    async def relock(self) -> None:
        """Close the store that a recovery has opened, and seal no data key for this machine.

        The stored state does not change, so the coordinator stays in recovery mode.
        """
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
        line: LineMark | None = None,
    ) -> Position:
        """Replace all records by ``base``, which begins a new epoch; return once this is durable.

        ``dek``, ``policy`` (the seal mode) and ``recovery_index``: new values; None: the present
        value remains. ``notes``: messages for replicas on this storage, stored with the epoch.
        ``line``: the proven line of the root. Before the commit, the sealed key has the old and the
        new data key. So a crash at any moment leaves a journal and its key. Errors as for
        ``Journal.append``.
        """
        async with self._turn:
            new = NewEpoch(base, dek, policy, recovery_index, notes, line)
            return await self._require_sealed().begin_epoch(new)

    async def settle(self) -> Position:
        """Determine the outcome of the last write, as ``Journal.settle``.

        If an epoch has begun, remove the key and the index of the former epoch. Otherwise remove
        the key and the index that were prepared for the new epoch.
        """
        async with self._turn:
            return await self._require_sealed().settle()

    async def write_head(self) -> None:
        """Seal the position of the journal. Later starts refuse a journal with an earlier end."""
        async with self._turn:
            await self._require_sealed().write_head()

    @abstractmethod
    def log_parts(self, name: str) -> LogParts:
        """Return the parts of the transparency log ``name``."""

    async def close(self) -> None:
        """Release everything; may be repeated. Call ``write_head`` before a clean stop."""
        async with self._turn:
            await self._close_store()
            if not self._closed:
                self._closed = True
                await self._release()

    @abstractmethod
    async def _load(self) -> Fresh | Locked | Opened:
        """Read the stored state, as ``load``. No store is open."""

    @abstractmethod
    async def _establish(self, new: NewStore) -> Journal:
        """Return the journal of ``new``, as ``establish``; no store is open."""

    @abstractmethod
    async def _recover(self, dek: Secret) -> Opened:
        """Open a locked store, as ``recover``; no store is open."""

    @abstractmethod
    async def _close_store(self) -> None:
        """Release the store, if one is open."""

    @abstractmethod
    async def _release(self) -> None:
        """Release the resources of the storage itself."""

    def _require_replaceable(self) -> None:
        if self._held is not None and self._held.is_sealed:
            raise BrokenError("the store is open: it cannot be replaced or recovered")

    def _require_open(self) -> S_co:
        if self._held is None:
            raise BrokenError("the store is not open")
        return self._held

    def _require_sealed(self) -> S_co:
        held = self._require_open()
        if not held.is_sealed:
            raise BrokenError("the store was recovered and has not been sealed yet")
        return held


StateStorage: TypeAlias = SerialStorage[SealedStore]
"""The interface of an engine's storage, for a directory or a database."""

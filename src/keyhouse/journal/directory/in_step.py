"""What homes promise and do alike: calls in turn, and a sealed key that fits the journal."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Iterable
from contextlib import suppress
from typing import Generic, TypeAlias, TypeVar

import msgspec

from keyhouse.base.errors import BrokenError, KeyhouseError, UnavailableError
from keyhouse.base.secret import Secret
from keyhouse.journal.directory.found import Fresh, LineMark, Locked, Opened
from keyhouse.journal.directory.log_files import LogParts
from keyhouse.journal.directory.sealing import EpochKey
from keyhouse.journal.journal import Journal
from keyhouse.journal.store.protocol import Note, Position


class NewStore(msgspec.Struct, frozen=True):
    """What a store begins with. With ``after`` it continues a journal that was at that place."""

    store_id: bytes
    dek: Secret
    base: Iterable[bytes]
    policy: str
    recovery_index: bytes
    after: Position | None
    line: LineMark | None = None  # of the root, which is proven


class NewEpoch(msgspec.Struct, frozen=True):
    """What replaces everything in a store; None: key, policy, index stay."""

    base: Iterable[bytes]
    dek: Secret | None
    policy: str | None
    recovery_index: bytes | None
    notes: tuple[Note, ...]
    line: LineMark | None = None  # of the root, which is proven


class StoreInStep(ABC):
    """An open store: keeps the sealed key consistent with its journal. Used by its home only."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.line: LineMark | None = None  # what each seal from now on says of the line
        self._following: tuple[EpochKey, bytes] | None = None  # and index, of an epoch that begins

    @property
    @abstractmethod
    def is_sealed(self) -> bool:
        """Whether the next start on this machine opens the store without recovery."""

    @abstractmethod
    async def reseal(self, policy: str) -> None:
        """Seal the key under ``policy``."""

    @abstractmethod
    async def begin_epoch(self, new: NewEpoch) -> Position:
        """Return once ``new`` has replaced everything."""

    @abstractmethod
    async def conclude_opening(self) -> None:
        """Write the seal if what was opened had one that is not the one to keep."""

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
                    self.line = following[0].line
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


S_co = TypeVar("S_co", bound=StoreInStep, covariant=True)


class HomeInTurn(ABC, Generic[S_co]):
    """One deployment's journal, with its sealed key and its recovery index.

    Belongs to one process; calls wait for each other. Errors are those of ``Journal``, and what
    the implementation names.
    """

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._held: S_co | None = None
        self._closed = False

    async def load(self) -> Fresh | Locked | Opened:
        """Read what is kept here; may be called again: it then reads everything again.

        A home that others share waits until this one may serve it. A store that is neither complete
        nor absent is refused by name: ``StoreDamagedError``, ``StoreNewerError``,
        ``StoreEmptyError``, ``StoreEndedError``, ``RolledBackError``, ``WrongPlatformError``,
        ``MixedDeploymentsError``, ``InsecureFileError``.
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
        """Return the journal of a new deployment with ``base``, durable; an old one is archived.

        ``store_id`` has 16 new random bytes; with ``after``, it is that of the journal in memory,
        at that position, which continues here. Refused while a store is open and sealed.
        ``UnavailableError``: nothing changed. ``BrokenError``: a restart finds which of the two is
        kept; ``OutcomeUnknownError``: or ``load`` does.
        """
        async with self._turn:
            self._require_replaceable()
            await self._close_store()
            return await self._establish(
                NewStore(store_id, dek, base, policy, recovery_index, after, line)
            )

    @abstractmethod
    async def archive(self) -> None:
        """Put aside what is kept, for a deployment that keeps nothing."""

    @abstractmethod
    async def destroy(self, time: int) -> None:
        """Erase the open store at ``time``, in microseconds since 1970."""

    async def recover(self, dek: Secret) -> Opened:
        """Open a locked store with a recovered data key. Nothing is written or sealed yet.

        Raises ``WrongKeyError`` if the key is not the journal's. Once everything recovered has been
        checked against the manifest in the journal, call ``reseal``.
        """
        async with self._turn:
            self._require_replaceable()
            await self._close_store()
            return await self._recover(dek)

    async def keep_line(self, line: LineMark | None) -> None:
        """Have ``line``, which is proven, in each seal from now on; complete what ``load`` left.

        None: of a state without a line. A full disk does not prevent it: the next head makes up.
        """
        async with self._turn:
            held = self._require_open()
            held.line = line
            with suppress(UnavailableError):
                await held.conclude_opening()

    def follow_line(self, line: LineMark | None) -> None:
        """Have ``line``, which is proven, in the seals that are written from now on."""
        if self._held is not None:
            self._held.line = line

    async def reseal(self, policy: str) -> None:
        """Seal the key for this machine under ``policy``: the next start needs no recovery."""
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
        line: LineMark | None = None,
    ) -> Position:
        """Return once ``base`` has replaced everything; None leaves key, policy or index unchanged.

        ``notes`` are left for those who share the home, with the epoch. The sealed key has both
        data keys before the commit, so that a crash at any moment leaves a journal and a key that
        opens it. Errors as for ``Journal.append``.
        """
        async with self._turn:
            new = NewEpoch(base, dek, policy, recovery_index, notes, line)
            return await self._require_sealed().begin_epoch(new)

    async def settle(self) -> Position:
        """Find out about the last write, as ``Journal.settle``, and keep the key that fits it."""
        async with self._turn:
            return await self._require_sealed().settle()

    async def write_head(self) -> None:
        """Seal the position of the journal: later starts refuse a journal that ends before it."""
        async with self._turn:
            await self._require_sealed().write_head()

    @abstractmethod
    def log_parts(self, name: str) -> LogParts:
        """Return where the parts of the transparency log ``name`` are kept."""

    async def close(self) -> None:
        """Release everything, once or twice. Call ``write_head`` before at a clean stop."""
        async with self._turn:
            await self._close_store()
            if not self._closed:
                self._closed = True
                await self._release()

    @abstractmethod
    async def _load(self) -> Fresh | Locked | Opened:
        """Read what is kept here, as ``load``; no store is open."""

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
        """Release what the home itself has."""

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


Home: TypeAlias = HomeInTurn[StoreInStep]
"""What an engine is promised of the place where its state is kept, whichever it is."""

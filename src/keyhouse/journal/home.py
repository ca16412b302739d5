"""What an engine is promised of the place where its state is kept, whichever it is."""

from collections.abc import Iterable
from typing import Protocol

from keyhouse.base.secret import Secret
from keyhouse.journal.directory.found import Fresh, Locked, Opened
from keyhouse.journal.journal import Journal
from keyhouse.journal.log_parts import LogParts
from keyhouse.journal.store.records import Note, Position


class Home(Protocol):
    """One deployment's journal, with its sealed key and its recovery index.

    Belongs to one process; calls wait for each other. Errors are those of ``Journal``, and what
    the implementation names.
    """

    async def load(self) -> Fresh | Locked | Opened:
        """Read what is kept here. A home that others share waits until this one may serve it."""
        ...

    async def establish(
        self,
        *,
        store_id: bytes,
        dek: Secret,
        base: Iterable[bytes],
        policy: str,
        recovery_index: bytes = b"",
        after: Position | None = None,
    ) -> Journal:
        """Return the journal of a new deployment, durable; an old one is archived.

        With ``after`` it continues a journal in memory at that position. ``UnavailableError``:
        nothing changed. ``BrokenError``: a restart finds which of the two is kept.
        """
        ...

    async def archive(self) -> None:
        """Put aside what is kept, for a deployment that keeps nothing."""
        ...

    async def destroy(self, time: int) -> None:
        """Erase the open store at ``time``, in microseconds since 1970."""
        ...

    async def recover(self, dek: Secret) -> Opened:
        """Open a locked store with a recovered data key. Nothing is written or sealed yet."""
        ...

    async def reseal(self, policy: str) -> None:
        """Seal the data key under ``policy`` for this platform."""
        ...

    async def relock(self) -> None:
        """Close a recovered store that was not sealed."""
        ...

    async def begin_epoch(
        self,
        base: Iterable[bytes],
        *,
        dek: Secret | None = None,
        policy: str | None = None,
        recovery_index: bytes | None = None,
        notes: tuple[Note, ...] = (),
    ) -> Position:
        """Return once ``base`` has replaced everything; None leaves key, policy or index.

        ``notes`` are left for those who share the home, with the epoch.
        """
        ...

    async def settle(self) -> Position:
        """Find out about the last write, as ``Journal.settle``, and keep the key that fits it."""
        ...

    async def write_head(self) -> None:
        """Seal the position of the journal: later starts refuse a journal that ends before it."""
        ...

    def log_parts(self, name: str) -> LogParts:
        """Return where the parts of the transparency log ``name`` are kept."""
        ...

    async def close(self) -> None:
        """Release everything. It may be closed twice."""
        ...

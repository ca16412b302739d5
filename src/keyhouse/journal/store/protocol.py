"""The interface of a store: where the journal keeps its records."""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import msgspec

from keyhouse.base.errors import BrokenError, UnavailableError

__all__ = [
    "Batch",
    "EpochStart",
    "Head",
    "OutcomeUnknownError",
    "Sealed",
    "Step",
    "Store",
    "StoreConflictError",
    "StoreDamagedError",
    "StoreFullError",
    "StoreLockedError",
    "StoreNewerError",
    "StoreUnreadableError",
    "no_step",
]


Step = Callable[[str], None]
"""Called with a name before each durable step and once after the last: the crash points."""


def no_step(_name: str) -> None:
    """Do nothing: the ``Step`` in production."""


class StoreConflictError(UnavailableError):
    """Another writer was first; nothing was written. Catch up, and decide again."""

    code = "store-conflict"


class StoreFullError(UnavailableError):
    """The disk is full; nothing was written. Reads still work."""

    code = "store-full"


class StoreUnreadableError(UnavailableError):
    """The store did not answer a read, or could not be opened; nothing was written."""

    code = "store-unreadable"


class StoreLockedError(UnavailableError):
    """Another process has the store open."""

    code = "store-locked"


class OutcomeUnknownError(BrokenError):
    """It is unknown whether the write is in the store: read it back before anything else."""

    code = "store-outcome-unknown"


class StoreDamagedError(BrokenError):
    """The stored bytes are not what Keyhouse wrote."""

    code = "store-damaged"


class StoreNewerError(BrokenError):
    """Written by a newer version of Keyhouse; the message names both format versions."""

    code = "store-newer"


class Sealed(msgspec.Struct, frozen=True):
    """One encrypted record as the store keeps it."""

    sequence: int
    header: bytes
    nonce: bytes
    ciphertext: bytes


class Head(msgspec.Struct, frozen=True):
    """Where the store ends. The empty store is at epoch 0, sequence 0."""

    epoch: int
    sequence: int


class EpochStart(msgspec.Struct, frozen=True):
    """The unencrypted description of the present epoch.

    The store is not trusted with it: the tag of the first record authenticates ``previous`` and
    ``first``, every tag ``store_id`` and ``epoch``. A wrong ``key_check`` only refuses a key.
    """

    store_id: bytes  # 16 bytes
    epoch: int  # from 1
    first: int  # sequence of the epoch's first record
    previous: bytes  # chain value before that record, 32 bytes
    key_check: bytes  # tells whether a data key belongs to this epoch, 32 bytes


class Batch(msgspec.Struct, frozen=True):
    """One consistent read of the store. ``start`` is None only in an empty store."""

    start: EpochStart | None
    records: tuple[Sealed, ...]


class Store(Protocol):
    """Durable, ordered, untrusted: it may lose, repeat or change what it is given.

    Sequence numbers are global: they continue from one epoch to the next and never restart.
    A cancelled call may still take effect.
    """

    async def append(self, expected_seq: int, records: Sequence[Sealed]) -> None:
        """Return once all ``records`` are durable, in one transaction.

        ``expected_seq`` is the last sequence in the store as the caller knows it. Raises
        ``StoreConflictError`` if it is not, ``StoreFullError`` (nothing was written), or
        ``OutcomeUnknownError``.
        """
        ...

    async def read(self, after_seq: int) -> Batch:
        """Return the records of the present epoch after ``after_seq``, a bounded number of them.

        Call it again with the last sequence received until a batch has no records.
        """
        ...

    async def head(self) -> Head:
        """Return where the store ends."""
        ...

    async def begin_epoch(
        self, expected_seq: int, start: EpochStart, records: Iterable[Sealed]
    ) -> None:
        """Replace everything older by ``records``, in one transaction.

        ``records`` is consumed off the event loop; an error of it undoes everything and is raised.
        The bytes of the older records are gone from the live files when this returns, or, if the
        store could not do that now, before its next write. Errors as for ``append``.
        """
        ...

    async def close(self) -> None:
        """Release the store. It may be closed twice."""
        ...

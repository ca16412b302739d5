"""Seal the records of one write, and determine its outcome.

A nonce is random, so each sealed record is unique, and so is the chain value after the record. If
the store ends at the place after the write, the write happened. If the store ends at the place
before the write, the write has not happened, and after ``Store.settle`` it never will. If other
records follow, the records after the old place decide.
"""

from collections.abc import Iterable, Iterator, Sequence

from keyhouse.base.errors import BrokenError, UnavailableError
from keyhouse.base.secret import Secret
from keyhouse.journal.chain import PayloadKind, Sealer
from keyhouse.journal.store.protocol import (
    Position,
    Sealed,
    Store,
    StoreConflictError,
    StoreUnreadableError,
    follow,
)

# The size of a record without its payload: header, nonce, tag and row.
_RECORD_OVERHEAD = 100


class NotDurableError(UnavailableError):
    """The write has not happened, and never will."""

    code = "not-durable"


class OutcomeLostError(BrokenError):
    """The outcome of the write is lost: another writer has begun an epoch since.

    The new epoch has replaced the records that would decide.
    """

    code = "outcome-lost"


class Write:
    """The records of one transaction after ``after``, in a store that ends at ``expected``.

    ``expected`` is None for an empty store. ``head`` is the place after the records that are sealed
    so far. ``dek`` is the data key of their epoch.
    """

    def __init__(
        self, sealer: Sealer, dek: Secret, *, expected: Position | None, after: Position
    ) -> None:
        self.sealer = sealer
        self.dek = dek
        self.expected = expected
        self.after = after
        self.head = after
        self.weight = 0
        self.complete = False

    def seal_events(self, payloads: Sequence[bytes]) -> list[Sealed]:
        """Return the sealed records of ``payloads``, in their order."""
        records = []
        for payload in payloads:
            sealed, self.head = self.sealer.seal(self.head, PayloadKind.EVENT, payload)
            records.append(sealed)
        self.weight, self.complete = weight(payloads), True
        return records

    def seal_base(self, base: Iterable[bytes]) -> Iterator[Sealed]:
        """Yield the records of ``base``, one for each piece."""
        pieces = iter(base)
        held = next(pieces, None)
        if held is None:
            raise ValueError("a base has at least one payload")
        for piece in pieces:
            yield self._seal_piece(PayloadKind.BASE, held)
            held = piece
        last = self._seal_piece(PayloadKind.BASE_END, held)
        self.complete = True
        yield last

    def _seal_piece(self, kind: PayloadKind, payload: bytes) -> Sealed:
        sealed, self.head = self.sealer.seal(self.head, kind, payload)
        self.weight += weight((payload,))
        return sealed


def weight(payloads: Sequence[bytes]) -> int:
    """Return the size of the records of ``payloads`` in bytes."""
    return sum(map(len, payloads)) + _RECORD_OVERHEAD * len(payloads)


async def require_happened(store: Store, write: Write) -> None:
    """Return if ``write``, whose outcome is unknown, has happened; raise if not.

    ``NotDurableError``: the store ends at the place before the write. ``StoreConflictError``:
    another writer wrote first. After these two the write never happens. ``OutcomeLostError``:
    nothing can determine the outcome. After any other error the outcome is still unknown.
    """
    head = await store.settle()
    if write.complete and head == write.head:
        return
    if head == write.expected:
        raise NotDurableError(
            "the change could not be written and has not happened",
            hint="try again; if the error stays, check the disk or the database of the state",
        )
    if not (write.complete and head is not None and await _is_in(store, write, head)):
        # Nonces are random, so different records come from another writer.
        raise StoreConflictError("another writer wrote first")


async def _is_in(store: Store, write: Write, head: Position) -> bool:
    """Tell whether the records before ``head`` include ``write``."""
    if head.epoch <= write.head.epoch:
        return head.epoch == write.head.epoch and await _is_followed(store, write)
    start = (await store.read(0)).start
    if start is None or start.first <= write.head.sequence:
        return False
    if start.first > write.head.sequence + 1:
        raise OutcomeLostError(
            "the outcome of the last change cannot be determined: another writer began an epoch",
            hint="read the present state before you repeat the change",
        )
    return start.previous == write.head.chain


async def _is_followed(store: Store, write: Write) -> bool:
    """Tell whether the records of the present epoch, the epoch of ``write``, include ``write``."""
    place = write.after
    while place.sequence < write.head.sequence:
        batch = await store.read(place.sequence)
        if batch.start is None or batch.start.epoch != place.epoch:
            raise StoreUnreadableError("another writer began an epoch while the journal was read")
        if not batch.records:
            return False
        place = follow(place, *batch.records[: write.head.sequence - place.sequence])
    return place == write.head

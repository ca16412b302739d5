"""Determine the outcome of a write after the store has not answered.

A nonce is random, so each sealed record is unique, and so is the chain value after the record. If
the store ends at the place after the write, the write happened. If the store ends at the place
before the write, the write has not happened, and after ``Store.settle`` it never will. If the store
ends elsewhere, the records after the old place show whether the write is among them.
"""

from keyhouse.base.errors import BrokenError, UnavailableError
from keyhouse.journal.chain import Write
from keyhouse.journal.store.protocol import (
    Position,
    Store,
    StoreConflictError,
    StoreUnreadableError,
    follow,
)


class NotDurableError(UnavailableError):
    """The write has not happened, and never will."""

    code = "not-durable"


class OutcomeLostError(BrokenError):
    """The outcome of the write is lost: another writer has begun an epoch since.

    The new epoch has replaced the records that would decide.
    """

    code = "outcome-lost"


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
    """Return whether the records before ``head`` include ``write``."""
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
    """Return whether the records of the present epoch include ``write``.

    The present epoch is the epoch of ``write``. Raises ``StoreUnreadableError`` if a different
    writer begins an epoch during the read.
    """
    place = write.after
    while place.sequence < write.head.sequence:
        batch = await store.read(place.sequence)
        if batch.start is None or batch.start.epoch != place.epoch:
            raise StoreUnreadableError("another writer began an epoch while the journal was read")
        if not batch.records:
            return False
        place = follow(place, *batch.records[: write.head.sequence - place.sequence])
    return place == write.head

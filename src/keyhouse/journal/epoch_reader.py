"""Read the records of a store, and verify each tag and the chain.

A reader knows a position that the journal has once reached. Fewer records than before, or different
records, are a rollback.
"""

import asyncio
import hmac
from collections import deque
from collections.abc import Iterable, Sequence

from keyhouse.base.errors import BrokenError
from keyhouse.base.progress import advance
from keyhouse.base.secret import Secret
from keyhouse.journal.chain import (
    DEK_SIZE,
    PayloadKind,
    Replay,
    Replayer,
    Sealer,
    key_check,
    weight,
)
from keyhouse.journal.store.protocol import (
    KEPT_PLACES,
    STORE_ID_SIZE,
    Batch,
    EpochStart,
    Flush,
    OutcomeUnknownError,
    Position,
    Sealed,
    Store,
    StoreConflictError,
    StoreDamagedError,
    StoreUnreadableError,
    first_link,
)

# Bytes of records that are opened on the event loop, which takes less than a millisecond.
_INLINE = 16 * 1024


class WrongKeyError(BrokenError):
    """The given data key is not the key of the journal's present epoch."""

    code = "wrong-key"


class RolledBackError(BrokenError):
    """The store has fewer records than before, or different records."""

    code = "rolled-back"


class StoreEmptyError(BrokenError):
    """The store holds no journal, although a manifest was set before."""

    code = "store-empty"


async def read_epoch(
    store: Store, store_id: bytes, dek: Secret, known: Position | None
) -> tuple[Sequence[Position], Replay]:
    """Read and verify the present epoch of ``store`` under the data key ``dek``.

    Return the newest places, at most ``KEPT_PLACES`` in ascending order, and the records, once all
    of them are durable. ``known``: a position that the journal has once reached.
    """
    check_sizes(store_id, dek)
    batch = await store.read(0)
    start = require_start(batch, store_id)
    if not hmac.compare_digest(start.key_check, key_check(dek, store_id, start.epoch)):
        raise WrongKeyError(
            f"the data key is not the key of epoch {start.epoch} of the journal",
            hint="use the recovery keys or the sealed_key of this deployment and this epoch",
        )
    require_link(start, known)
    replayer = Replayer(Sealer(dek, store_id, start.epoch), start)
    # The place before the first record is not among them: it belongs to the former epoch.
    places = deque[Position](maxlen=KEPT_PLACES)
    while batch.records:
        places.extend(await asyncio.to_thread(_verify_records, replayer, batch.records, known))
        advance(len(batch.records))
        # Without this check, a reader could follow a fast writer forever.
        if batch.head == replayer.position:
            break
        batch = await store.read(replayer.position.sequence)
        if batch.start != start:
            raise StoreConflictError("another writer began an epoch while the journal was read")
    replay = replayer.finish()
    _check_reached(replayer.position, known)
    require_head(batch, replayer.position)
    await _flushed(batch.flush)
    return places, replay


async def _flushed(flush: Flush | None) -> None:
    """Run ``flush``, if there is one. Raises ``StoreUnreadableError`` if records may be lost."""
    if flush is None:
        return
    try:
        await flush()
    except OutcomeUnknownError:
        raise StoreUnreadableError(
            "the database failed while the records were read", hint="check the database server"
        ) from None


def _verify_records(
    replayer: Replayer, records: Iterable[Sealed], known: Position | None
) -> list[Position]:
    """Verify ``records``; return the place after each record.

    ``known``: a position that the journal has once reached; its chain value must be the same.
    """
    places = [replayer.verify(record) for record in records]
    for place in places:
        _check_known(place, known)
    return places


async def open_events(
    sealer: Sealer, after: Position, records: Sequence[Sealed]
) -> list[tuple[bytes, Position]]:
    """Verify that ``records`` are events after ``after``; return payload and place of each."""

    def work() -> list[tuple[bytes, Position]]:
        events, place = list[tuple[bytes, Position]](), after
        for record in records:
            kind, payload, place = sealer.unseal(place, record)
            if kind is not PayloadKind.EVENT:
                raise StoreDamagedError(
                    f"record {place.sequence} of the journal is not an event, although the base has"
                    " ended"
                )
            events.append((payload, place))
        return events

    if weight([record.ciphertext for record in records]) <= _INLINE:
        return work()
    return await asyncio.to_thread(work)


def require_head(batch: Batch, position: Position) -> None:
    """Check that the end of the store in ``batch`` is ``position``, after the verified records."""
    head = batch.head
    if head == position:
        return
    if head is not None and (head.epoch, head.sequence) == (position.epoch, position.sequence):
        raise _continued_elsewhere(position)
    if head is not None and (head.epoch, head.sequence) < (position.epoch, position.sequence):
        raise _rolled_back(head.epoch, head.sequence, position)
    raise StoreDamagedError(
        "the journal does not end with its last record",
        hint="restore the state from a backup",
    )


def check_sizes(store_id: bytes, dek: Secret) -> None:
    """Raise ``ValueError`` unless the store id has 16 bytes, and the data key 32."""
    if len(store_id) != STORE_ID_SIZE or len(dek) != DEK_SIZE:
        raise ValueError("a store id must have 16 bytes, and a data key 32")


def require_start(batch: Batch, store_id: bytes) -> EpochStart:
    """Return the start of the epoch in ``batch``. It must belong to the journal ``store_id``.

    Raises ``StoreEmptyError`` or ``StoreDamagedError``.
    """
    start = batch.start
    if start is None:
        raise StoreEmptyError(
            "there is no journal in the store", hint="restore the state from a backup"
        )
    if start.store_id != store_id:
        raise StoreDamagedError(
            "the journal belongs to another deployment",
            hint="restore the state from a backup",
        )
    if start.epoch == 1 and (start.first, start.previous) != (1, first_link(store_id)):
        raise StoreDamagedError("the first record of the epoch in the journal has been changed")
    return start


def require_link(start: EpochStart, known: Position | None) -> None:
    """Verify that the epoch ``start`` contains the position ``known``, or continues it.

    ``known``: a position that the journal has once reached; None: nothing to verify. Raises
    ``RolledBackError``.
    """
    if known is None:
        return
    before = Position(known.epoch, start.first - 1, start.previous)
    if known.epoch > start.epoch:
        raise _rolled_back(start.epoch, start.first, known)
    if known.epoch < start.epoch:
        if before.sequence < known.sequence:
            raise _rolled_back(start.epoch, start.first, known)
        _check_known(before, known)
    elif known.sequence < start.first:
        # The same epoch began twice: this journal is not the one of that position.
        raise _continued_elsewhere(known)


def _check_known(position: Position, known: Position | None) -> None:
    if known is None or position.epoch != known.epoch or position.sequence != known.sequence:
        return
    if position.chain != known.chain:
        raise _continued_elsewhere(known)


def _check_reached(position: Position, known: Position | None) -> None:
    if known is None or known.epoch != position.epoch:
        return
    if position.sequence < known.sequence:
        raise _rolled_back(position.epoch, position.sequence, known)


NEWEST = "restore the newest state, or recover from a backup"
"""The next step after a rollback of a journal."""

_NEWEST = f"{NEWEST}; with --store check whether two databases accept writes"


def _rolled_back(epoch: int, sequence: int, known: Position) -> RolledBackError:
    return RolledBackError(
        f"the journal ends at {epoch}.{sequence} but was at {known.epoch}.{known.sequence} before:"
        " the journal was rolled back",
        hint=_NEWEST,
    )


def _continued_elsewhere(known: Position) -> RolledBackError:
    return RolledBackError(
        f"record {known.sequence} of the journal differs from the record of this number before: the"
        " journal was rolled back and then continued",
        hint=_NEWEST,
    )

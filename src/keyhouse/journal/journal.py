"""The journal: payloads are sealed and chained on the way in, verified on the way out."""

import asyncio
import hmac
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import AbstractAsyncContextManager

import msgspec

from keyhouse.base.errors import BrokenError, KeyhouseError, UnavailableError
from keyhouse.base.progress import advance
from keyhouse.base.secret import Secret
from keyhouse.journal.chain import Kind, Sealer
from keyhouse.journal.keys import DEK_SIZE, index_mac_key, key_check
from keyhouse.journal.replay import Continuation, Replay, Replaying
from keyhouse.journal.store.protocol import (
    KEPT_PLACES,
    NOTHING,
    STORE_ID_SIZE,
    Batch,
    Beside,
    EpochStart,
    OutcomeUnknownError,
    Position,
    Sealed,
    Store,
    StoreConflictError,
    StoreDamagedError,
    Trail,
    first_link,
)
from keyhouse.journal.writing import (
    NotDurableError,
    OutcomeLostError,
    Write,
    require_happened,
    weight,
)

_LIGHTEST_BASE = 1024 * 1024
_INLINE = 16 * 1024  # bytes of records that are opened on the event loop: they take no millisecond


class WrongKeyError(BrokenError):
    """The given data key is not that of the journal's present epoch."""

    code = "wrong-key"


class RolledBackError(BrokenError):
    """The store has fewer records, or other ones, than it had before."""

    code = "rolled-back"


class StoreEmptyError(BrokenError):
    """There is no journal in the store."""

    code = "store-empty"


class Weight(msgspec.Struct, frozen=True):
    """Sizes of the records of an epoch in bytes: of its base, and of the events since."""

    base: int
    since: int


class Journal:
    """The records of one deployment, from the base of the present epoch on.

    It belongs to one writer: calls wait for each other. After a write whose outcome cannot be
    determined, or which was cancelled, it neither writes nor reads until ``settle`` has found out.
    """

    def __init__(self, store: Store, *, store_id: bytes, dek: Secret, position: Position) -> None:
        """Continue at ``position``, which the caller has verified (see ``create``, ``open``)."""
        self.store_id = store_id
        self.position = position
        self._store = store
        self._dek = dek
        self._sealer = Sealer(dek, store_id, position.epoch)
        self._turn = asyncio.Lock()
        self._unsettled: Write | None = None
        self._trail = Trail()
        self._trail.passed(position)
        self._base_weight = 0
        self._weight = 0

    @classmethod
    async def create(
        cls,
        store: Store,
        *,
        store_id: bytes,
        dek: Secret,
        base: Iterable[bytes],
        after: Position | None = None,
        beside: Beside = NOTHING,
    ) -> "Journal":
        """Begin an epoch with ``base`` in an empty store; it is durable when this returns.

        ``after`` is the position of the journal in another store, which this one continues: epochs,
        sequences and chain. None: a new journal. Raises ``StoreConflictError`` if the store is not
        empty.
        """
        _check_sizes(store_id, dek)
        before = Position(0, 0, first_link(store_id)) if after is None else after
        journal = cls(store, store_id=store_id, dek=dek, position=before)
        await journal._begin(base, dek, expected=None, beside=beside)
        return journal

    @classmethod
    async def open(
        cls, store: Store, *, store_id: bytes, dek: Secret, at_least: Position | None = None
    ) -> "tuple[Journal, Replay]":
        """Read and verify everything from the present base on.

        ``at_least`` is a position that the journal is known to have had. Raises
        ``StoreEmptyError``, ``StoreDamagedError``, ``StoreNewerError``, ``WrongKeyError`` or
        ``RolledBackError``.
        """
        places, replay = await _read_whole(store, store_id, dek, at_least)
        journal = cls(store, store_id=store_id, dek=dek, position=places[-1])
        journal._trail.passed(*places)
        journal._weigh(replay)
        return journal, replay

    async def append(self, payloads: Sequence[bytes]) -> Position:
        """Return the position behind ``payloads`` once all are durable, in one transaction.

        Raises ``StoreConflictError`` (nothing was written: catch up, decide and append again),
        ``StoreFullError`` or ``NotDurableError`` (nothing was written), ``OutcomeUnknownError``
        (the store could not be read back: call ``settle``), or ``OutcomeLostError`` as that does.
        """
        async with self._turn:
            self._require_settled()
            if not payloads:
                return self.position
            write = Write(self._sealer, self._dek, expected=self.position, after=self.position)
            records = write.seal_events(payloads)
            return await self._carry_out(
                write, self._store.append(self.position, records, write.head)
            )

    async def settle(self) -> Position:
        """Return the position, which is behind the last write if that has happened.

        For after ``OutcomeUnknownError`` or a cancelled write. Errors as for ``append``: after
        ``OutcomeUnknownError`` call it again, after the others the write will never happen. After
        ``OutcomeLostError`` it may have happened; catch up and continue.
        """
        async with self._turn:
            if self._unsettled is not None:
                await self._settle(self._unsettled)
            return self.position

    async def catch_up(self) -> Replay | Continuation:
        """Return what others wrote since ``position``, verified, and move behind it.

        ``Continuation``: the events that follow. ``Replay``: another writer began an epoch, whose
        base replaces everything. Raises ``WrongKeyError`` if that epoch has another data key, and
        ``RolledBackError`` if the store lost records that were there, also if others are there now.
        """
        async with self._turn:
            self._require_settled()
            events, places = list[bytes](), [self.position]
            before = self.position
            while True:
                batch = await self._store.read(before.sequence)
                start = _require_start(batch, self.store_id)
                if start.epoch != self.position.epoch:
                    return await self._reopen(self._dek)
                try:
                    opened = await _open_events(self._sealer, before, batch.records)
                except StoreDamagedError:
                    # Whether it is damaged or continues another journal shows from its base on.
                    return await self._reopen(self._dek)
                events += (payload for payload, _ in opened)
                places += (place for _, place in opened)
                before = places[-1]
                if not batch.records or batch.head == before:
                    break
            _check_head(batch, before)
            self.position = before
            self._trail.passed(*places)
            self._weight += weight(events)
            return Continuation(tuple(events))

    async def switch(self, dek: Secret) -> Replay:
        """Move to the epoch that another writer began under ``dek``, of which nothing is proven.

        For after ``WrongKeyError``; errors as for ``catch_up``. Nothing changes on an error.
        """
        async with self._turn:
            self._require_settled()
            return await self._reopen(dek)

    async def begin_epoch(
        self, base: Iterable[bytes], *, dek: Secret | None = None, beside: Beside = NOTHING
    ) -> Position:
        """Return once ``base`` has replaced all older records, under ``dek`` if one is given.

        ``base`` has at least one payload, each of bounded size; it is consumed and sealed off the
        event loop. An error of ``base`` undoes everything and is raised. Errors as for ``append``.
        """
        async with self._turn:
            self._require_settled()
            key = self._dek if dek is None else dek
            return await self._begin(base, key, expected=self.position, beside=beside)

    async def head(self) -> Position | None:
        """Return where the store ends now, as ``Store.head``; other calls do not wait for it."""
        return await self._store.head()

    def place_at(self, sequence: int) -> Position | None:
        """Return the place after the record ``sequence``; None if it is ahead, or too old."""
        return self._trail.at(sequence)

    def turn(self) -> AbstractAsyncContextManager[None]:
        """Return a context in which the next write is that of this journal, as ``Store.turn``."""
        return self._store.turn()

    def watch(self, changed: Callable[[], None]) -> None:
        """Call ``changed`` whenever there may be something to catch up with, as ``Store.watch``."""
        self._store.watch(changed)

    @property
    def dek(self) -> Secret:
        """The data key of the present epoch, for a journal that continues in another store."""
        return self._dek

    @property
    def settled(self) -> bool:
        """False after a write with an unknown outcome: then call ``settle`` before all else."""
        return self._unsettled is None

    @property
    def weight(self) -> Weight:
        """The sizes of the present epoch."""
        return Weight(self._base_weight, self._weight)

    def outweighs_base(self) -> bool:
        """Tell whether it is time for a new base.

        That is so when the events since the base are larger than it, and than 1 MiB; and when the
        store lacks records, which a new base replaces from memory.
        """
        return not self._store.is_whole or self._weight > max(self._base_weight, _LIGHTEST_BASE)

    def index_mac_key(self, epoch: int) -> Secret:
        """Return the 32-byte HMAC key for the recovery index of ``epoch`` under this data key."""
        return index_mac_key(self._dek, self.store_id, epoch)

    def _next_start(self, dek: Secret) -> EpochStart:
        epoch = self.position.epoch + 1
        return EpochStart(
            store_id=self.store_id,
            epoch=epoch,
            first=self.position.sequence + 1,
            previous=self.position.chain,
            key_check=key_check(dek, self.store_id, epoch),
        )

    async def _begin(
        self, base: Iterable[bytes], dek: Secret, *, expected: Position | None, beside: Beside
    ) -> Position:
        """Begin the next epoch in the store, which ends at ``expected``."""
        start = self._next_start(dek)
        sealer = Sealer(dek, self.store_id, start.epoch)
        write = Write(sealer, dek, expected=expected, after=start.before)
        return await self._carry_out(
            write, self._store.begin_epoch(expected, start, write.seal_base(base), beside)
        )

    async def _carry_out(self, write: Write, attempt: Coroutine[None, None, None]) -> Position:
        """Return the position behind ``write``, which ``attempt`` brings into the store."""
        self._unsettled = write
        try:
            await attempt
        except OutcomeUnknownError:
            await self._settle(write)
        except KeyhouseError:
            self._unsettled = None
            raise
        except Exception:
            # An error of a base is before the commit; a later one is a fault of the store.
            if not write.complete:
                self._unsettled = None
            raise
        else:
            self._move_behind(write)
        return self.position

    async def _settle(self, write: Write) -> None:
        """Move behind ``write`` if it is in the store; raise if not, or if that is unknown."""
        try:
            await require_happened(self._store, write)
        except (NotDurableError, StoreConflictError, OutcomeLostError):
            self._unsettled = None
            raise
        except (UnavailableError, OutcomeUnknownError):
            raise _outcome_unknown() from None
        self._move_behind(write)

    def _move_behind(self, write: Write) -> None:
        if write.head.epoch == self.position.epoch:
            self._weight += write.weight
        else:
            self._base_weight, self._weight = write.weight, 0
            self._dek, self._sealer = write.dek, write.sealer
        self.position, self._unsettled = write.head, None
        self._trail.passed(write.head)

    async def _reopen(self, dek: Secret) -> Replay:
        """Move to the epoch that another writer began, under ``dek``."""
        places, replay = await _read_whole(self._store, self.store_id, dek, self.position)
        self.position, self._dek = places[-1], dek
        self._trail.passed(*places)
        self._sealer = Sealer(dek, self.store_id, self.position.epoch)
        self._weigh(replay)
        return replay

    def _weigh(self, replay: Replay) -> None:
        self._base_weight = weight(replay.base)
        self._weight = weight(replay.events)

    def _require_settled(self) -> None:
        if self._unsettled is not None:
            raise _outcome_unknown()


async def _read_whole(
    store: Store, store_id: bytes, dek: Secret, known: Position | None
) -> tuple[Sequence[Position], Replay]:
    """Read and verify the present epoch; ``known`` is a position it once reached.

    Return its newest places as well, at most ``KEPT_PLACES``, the last one at the end.
    """
    _check_sizes(store_id, dek)
    batch = await store.read(0)
    start = _require_start(batch, store_id)
    if not hmac.compare_digest(start.key_check, key_check(dek, store_id, start.epoch)):
        raise WrongKeyError(
            f"the data key is not the one of the journal's epoch {start.epoch}",
            hint="the recovery keys or the sealed_key belong to another epoch or deployment",
        )
    require_link(start, known)
    replaying = Replaying(Sealer(dek, store_id, start.epoch), start)
    # Without the place before the first record: that belongs to the epoch before.
    places = deque[Position](maxlen=KEPT_PLACES)
    while batch.records:
        places.extend(await asyncio.to_thread(_take, replaying, batch.records, known))
        advance(len(batch.records))
        if batch.head == replaying.position:  # others may write as fast as this reads
            break
        batch = await store.read(replaying.position.sequence)
        if batch.start != start:
            raise StoreConflictError("another began an epoch while the journal was read")
    replay = replaying.finish()
    _check_reached(replaying.position, known)
    _check_head(batch, replaying.position)
    return places, replay


def _take(
    replaying: Replaying, records: Iterable[Sealed], known: Position | None
) -> list[Position]:
    """Verify ``records``; return the place behind each."""
    places = [replaying.take(record) for record in records]
    for place in places:
        _check_known(place, known)
    return places


async def _open_events(
    sealer: Sealer, after: Position, records: Sequence[Sealed]
) -> list[tuple[bytes, Position]]:
    """Return the payloads of ``records``, events after ``after``, and the place behind each."""

    def work() -> list[tuple[bytes, Position]]:
        events, place = list[tuple[bytes, Position]](), after
        for record in records:
            kind, payload, place = sealer.unseal(place, record)
            if kind is not Kind.EVENT:
                raise StoreDamagedError(
                    f"record {place.sequence} of the journal is not an event but must be"
                )
            events.append((payload, place))
        return events

    if weight([record.ciphertext for record in records]) <= _INLINE:
        return work()
    return await asyncio.to_thread(work)


def _check_head(batch: Batch, position: Position) -> None:
    """Check where the store ends, after whose last record the verified ``position`` is."""
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


def _outcome_unknown() -> OutcomeUnknownError:
    return OutcomeUnknownError(
        "a write may or may not have happened: the store cannot be read back",
        hint="look at the disk or the database of the state; a restart settles what happened",
    )


def _check_sizes(store_id: bytes, dek: Secret) -> None:
    if len(store_id) != STORE_ID_SIZE or len(dek) != DEK_SIZE:
        raise ValueError("a store id has 16 bytes, a data key 32")


def _require_start(batch: Batch, store_id: bytes) -> EpochStart:
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
        raise StoreDamagedError("the journal's beginning has been changed")
    return start


def require_link(start: EpochStart, known: Position | None) -> None:
    """Check an epoch's start against a position that the journal is known to have had.

    Raises ``RolledBackError`` or ``StoreDamagedError``.
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
        raise StoreDamagedError(
            f"epoch {start.epoch} of the journal begins at another place than it did"
        )


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
"""What to do about a journal that was rolled back."""

_NEWEST = f"{NEWEST}; with --store see whether two databases take writes"


def _rolled_back(epoch: int, sequence: int, known: Position) -> RolledBackError:
    return RolledBackError(
        f"the journal ends at {epoch}.{sequence} but was at {known.epoch}.{known.sequence} before: "
        "it was rolled back",
        hint=_NEWEST,
    )


def _continued_elsewhere(known: Position) -> RolledBackError:
    return RolledBackError(
        f"the journal has another record {known.sequence} than it had before: "
        "it was rolled back and then continued",
        hint=_NEWEST,
    )

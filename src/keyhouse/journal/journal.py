"""The journal: payloads are sealed and chained on the way in, verified on the way out."""

import asyncio
import hmac
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from keyhouse.base.errors import BrokenError, KeyhouseError, UnavailableError
from keyhouse.base.progress import advance
from keyhouse.base.secret import Secret
from keyhouse.journal.chain import Kind, Position, Sealer, first_link
from keyhouse.journal.keys import DEK_SIZE, STORE_ID_SIZE, index_mac_key, key_check
from keyhouse.journal.replay import Continuation, Replay, Replaying
from keyhouse.journal.store.protocol import (
    Batch,
    EpochStart,
    OutcomeUnknownError,
    Sealed,
    Store,
    StoreConflictError,
    StoreDamagedError,
)

__all__ = [
    "Journal",
    "NotDurableError",
    "RolledBackError",
    "StoreEmptyError",
    "Weight",
    "WrongKeyError",
]

_RECORD_OVERHEAD = 100  # size of a record without its payload: header, nonce, tag, row
_LIGHTEST_BASE = 1024 * 1024


class NotDurableError(UnavailableError):
    """The write did not happen."""

    code = "not-durable"


class WrongKeyError(BrokenError):
    """The given data key is not that of the journal's present epoch."""

    code = "wrong-key"


class RolledBackError(BrokenError):
    """The store has fewer records, or other ones, than it had before."""

    code = "rolled-back"


class StoreEmptyError(BrokenError):
    """There is no journal in the store."""

    code = "store-empty"


class Weight(NamedTuple):
    """Sizes of the records of an epoch in bytes: of its base, and of the events since."""

    base: int
    since: int


class Journal:
    """The records of one deployment, from the base of the present epoch on.

    It belongs to one writer: calls wait for each other. After a write whose outcome cannot be
    determined, or which was cancelled, the journal refuses to write: open it again.
    """

    def __init__(self, store: Store, *, store_id: bytes, dek: Secret, position: Position) -> None:
        """Continue at ``position``, which the caller has verified (see ``create``, ``open``)."""
        self.store_id = store_id
        self.position = position
        self._store = store
        self._dek = dek
        self._sealer = Sealer(dek, store_id, position.epoch)
        self._turn = asyncio.Lock()
        self._unsettled = False
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
    ) -> "Journal":
        """Begin an epoch with ``base`` in an empty store; it is durable when this returns.

        ``after`` is the position of the journal in another store, which this one continues: epochs,
        sequences and chain. None: a new journal. Raises ``StoreConflictError`` if the store is not
        empty.
        """
        _check_sizes(store_id, dek)
        before = Position(0, 0, first_link(store_id)) if after is None else after
        journal = cls(store, store_id=store_id, dek=dek, position=before)
        await journal._begin(base, dek, expected_seq=0)
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
        position, replay = await _read_whole(store, store_id, dek, at_least)
        journal = cls(store, store_id=store_id, dek=dek, position=position)
        journal._weigh(replay)
        return journal, replay

    async def append(self, payloads: Sequence[bytes]) -> Position:
        """Return the position behind ``payloads`` once all are durable, in one transaction.

        Raises ``StoreConflictError`` (nothing was written: catch up, decide and append again),
        ``StoreFullError`` or ``NotDurableError`` (nothing was written), ``OutcomeUnknownError``
        (the store could not be read back; this journal refuses further writes).
        """
        async with self._turn:
            self._require_settled()
            if not payloads:
                return self.position
            records = list(self._seal_events(payloads))
            sealed = [record for record, _ in records]
            self._unsettled = True
            try:
                await self._store.append(self.position.sequence, sealed)
            except OutcomeUnknownError:
                await self._settle(self.position.epoch, sealed)
            except KeyhouseError:
                self._unsettled = False
                raise
            self._unsettled = False
            self.position = records[-1][1]
            self._weight += _weight(payloads)
            return self.position

    async def catch_up(self) -> Replay | Continuation:
        """Return what others wrote since ``position``, verified, and move behind it.

        ``Continuation``: the events that follow. ``Replay``: another writer began an epoch, whose
        base replaces everything. Raises ``WrongKeyError`` if that epoch has another data key.
        """
        async with self._turn:
            self._require_settled()
            before, events = self.position, []
            while True:
                batch = await self._store.read(before.sequence)
                start = _require_start(batch, self.store_id)
                if start.epoch != self.position.epoch:
                    return await self._reopen()
                if not batch.records:
                    break
                for record in batch.records:
                    kind, payload, before = self._sealer.unseal(before, record)
                    if kind is not Kind.EVENT:
                        raise StoreDamagedError(
                            f"record {before.sequence} of the journal is no event but must be"
                        )
                    events.append(payload)
            await self._require_not_behind(before)
            self.position = before
            self._weight += _weight(events)
            return Continuation(tuple(events))

    async def begin_epoch(self, base: Iterable[bytes], *, dek: Secret | None = None) -> Position:
        """Return once ``base`` has replaced all older records, under ``dek`` if one is given.

        ``base`` has at least one payload, each of bounded size; it is consumed and sealed off the
        event loop. An error of ``base`` undoes everything and is raised. Errors as for ``append``.
        """
        async with self._turn:
            self._require_settled()
            key = self._dek if dek is None else dek
            return await self._begin(base, key, expected_seq=self.position.sequence)

    @property
    def dek(self) -> Secret:
        """The data key of the present epoch, for a journal that continues in another store."""
        return self._dek

    @property
    def settled(self) -> bool:
        """False after a write with an unknown outcome: this journal refuses further writes."""
        return not self._unsettled

    @property
    def weight(self) -> Weight:
        """The sizes of the present epoch."""
        return Weight(self._base_weight, self._weight)

    def outweighs_base(self) -> bool:
        """Tell whether the events since the base are larger than it, and than 1 MiB."""
        return self._weight > max(self._base_weight, _LIGHTEST_BASE)

    def index_mac_key(self, epoch: int) -> Secret:
        """Return the 32-byte HMAC key for the recovery index of ``epoch`` under this data key."""
        return index_mac_key(self._dek, self.store_id, epoch)

    def _seal_events(self, payloads: Sequence[bytes]) -> Iterator[tuple[Sealed, Position]]:
        position = self.position
        for payload in payloads:
            sealed, position = self._sealer.seal(position, Kind.EVENT, payload)
            yield sealed, position

    def _next_start(self, dek: Secret) -> EpochStart:
        epoch = self.position.epoch + 1
        return EpochStart(
            store_id=self.store_id,
            epoch=epoch,
            first=self.position.sequence + 1,
            previous=self.position.chain,
            key_check=key_check(dek, self.store_id, epoch),
        )

    async def _begin(self, base: Iterable[bytes], dek: Secret, *, expected_seq: int) -> Position:
        """Begin the next epoch in the store, which ends at ``expected_seq``."""
        start = self._next_start(dek)
        sealer = Sealer(dek, self.store_id, start.epoch)
        run = _BaseRun(sealer, Position(start.epoch, start.first - 1, start.previous))
        self._unsettled = True
        await self._commit_epoch(expected_seq, start, run, base)
        self._dek, self._sealer = dek, sealer
        self.position, self._unsettled = run.position, False
        self._base_weight, self._weight = run.weight, 0
        return self.position

    async def _commit_epoch(
        self, expected_seq: int, start: EpochStart, run: "_BaseRun", base: Iterable[bytes]
    ) -> None:
        try:
            await self._store.begin_epoch(expected_seq, start, run.seal(base))
        except OutcomeUnknownError:
            if run.complete:
                await self._settle(start.epoch, run.first)
                return
            # The store never received the whole base, so it cannot have been committed.
            self._unsettled = False
            raise NotDurableError("the epoch could not be begun") from None
        except KeyhouseError:
            self._unsettled = False
            raise
        except Exception:
            # An error of ``base`` is before the commit; a later one is a fault of the store.
            self._unsettled = run.complete
            raise

    async def _settle(self, epoch: int, records: Sequence[Sealed]) -> None:
        """Read back whether ``records``, of one transaction, are in the store; raise if not."""
        before = records[0].sequence - 1
        try:
            found, start = await self._read_back(before, len(records))
        except KeyhouseError:
            raise _outcome_unknown("the store cannot be read back") from None
        if found == list(records):
            return
        if start is not None and start.epoch > epoch:
            # Another base replaced these records; it may or may not contain their effect.
            raise _outcome_unknown("another began an epoch since")
        self._unsettled = False
        if found:
            # Nonces are random, so any other records were written by another.
            raise StoreConflictError("another wrote first")
        raise NotDurableError(
            "the change could not be written and has not happened",
            hint="try again; if it continues, look at the disk of the state directory",
        )

    async def _read_back(self, before: int, count: int) -> tuple[list[Sealed], EpochStart | None]:
        found: list[Sealed] = []
        while True:
            batch = await self._store.read(before + len(found))
            found += batch.records[: count - len(found)]
            if len(found) == count or not batch.records:
                return found, batch.start

    async def _reopen(self) -> Replay:
        """Move to the epoch that another writer began."""
        position, replay = await _read_whole(self._store, self.store_id, self._dek, self.position)
        self.position = position
        self._sealer = Sealer(self._dek, self.store_id, position.epoch)
        self._weigh(replay)
        return replay

    def _weigh(self, replay: Replay) -> None:
        self._base_weight = _weight(replay.base)
        self._weight = _weight(replay.events)

    async def _require_not_behind(self, position: Position) -> None:
        head = await self._store.head()
        if head.epoch == position.epoch and head.sequence < position.sequence:
            raise _rolled_back(head.epoch, head.sequence, position)

    def _require_settled(self) -> None:
        if self._unsettled:
            raise _outcome_unknown("the journal has to be opened again")


class _BaseRun:
    """Seals a base piece by piece, and keeps what is needed to determine its outcome."""

    def __init__(self, sealer: Sealer, position: Position) -> None:
        self.position = position
        self.first: list[Sealed] = []
        self.weight = 0
        self.complete = False
        self._sealer = sealer

    def seal(self, base: Iterable[bytes]) -> Iterator[Sealed]:
        pieces = iter(base)
        held = next(pieces, None)
        if held is None:
            raise ValueError("a base has at least one payload")
        for piece in pieces:
            yield self._seal(Kind.BASE, held)
            held = piece
        last = self._seal(Kind.BASE_END, held)
        self.complete = True
        yield last

    def _seal(self, kind: Kind, payload: bytes) -> Sealed:
        sealed, self.position = self._sealer.seal(self.position, kind, payload)
        self.weight += len(payload) + _RECORD_OVERHEAD
        if not self.first:
            self.first.append(sealed)
        return sealed


async def _read_whole(
    store: Store, store_id: bytes, dek: Secret, known: Position | None
) -> tuple[Position, Replay]:
    """Read and verify the present epoch; ``known`` is a position it once reached."""
    _check_sizes(store_id, dek)
    batch = await store.read(0)
    start = _require_start(batch, store_id)
    if not hmac.compare_digest(start.key_check, key_check(dek, store_id, start.epoch)):
        raise WrongKeyError(
            f"the data key is not the one of the journal's epoch {start.epoch}",
            hint="the recovery keys or the sealed_key belong to another epoch or deployment",
        )
    _check_link(start, known)
    replaying = Replaying(Sealer(dek, store_id, start.epoch), start)
    while batch.records:
        for record in batch.records:
            _check_known(replaying.take(record), known)
        advance(len(batch.records))
        batch = await store.read(replaying.position.sequence)
        if batch.start != start:
            raise StoreConflictError("another began an epoch while the journal was read")
    replay = replaying.finish()
    _check_reached(replaying.position, known)
    return replaying.position, replay


def _weight(payloads: Sequence[bytes]) -> int:
    return sum(map(len, payloads)) + _RECORD_OVERHEAD * len(payloads)


def _outcome_unknown(why: str) -> OutcomeUnknownError:
    return OutcomeUnknownError(
        f"a write may or may not have happened: {why}",
        hint="look at the disk of the state directory; a restart settles what happened",
    )


def _check_sizes(store_id: bytes, dek: Secret) -> None:
    if len(store_id) != STORE_ID_SIZE or len(dek) != DEK_SIZE:
        raise ValueError("a store id has 16 bytes, a data key 32")


def _require_start(batch: Batch, store_id: bytes) -> EpochStart:
    start = batch.start
    if start is None:
        raise StoreEmptyError(
            "there is no journal in the store", hint="restore the state directory from a backup"
        )
    if start.store_id != store_id:
        raise StoreDamagedError(
            "the journal belongs to another deployment",
            hint="restore the state directory from a backup",
        )
    if start.epoch == 1 and (start.first, start.previous) != (1, first_link(store_id)):
        raise StoreDamagedError("the journal's beginning has been changed")
    return start


def _check_link(start: EpochStart, known: Position | None) -> None:
    """Check an epoch's start against a position of an earlier epoch."""
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
        raise RolledBackError(
            f"the journal has another record {known.sequence} than it had before: "
            "it was rolled back and then continued",
            hint="restore the newest state directory, or recover from a backup",
        )


def _check_reached(position: Position, known: Position | None) -> None:
    if known is None or known.epoch != position.epoch:
        return
    if position.sequence < known.sequence:
        raise _rolled_back(position.epoch, position.sequence, known)


def _rolled_back(epoch: int, sequence: int, known: Position) -> RolledBackError:
    return RolledBackError(
        f"the journal ends at {epoch}.{sequence} but was at {known.epoch}.{known.sequence} before: "
        "it was rolled back",
        hint="restore the newest state directory, or recover from a backup",
    )

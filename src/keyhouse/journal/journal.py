"""Write sealed records to a store, and verify all records that a store returns.

A journal consists of epochs. An epoch begins with a base, the whole state in bounded pieces. Events
follow, at least one record for each change. A new epoch replaces all older records.

*Write path.* ``append`` seals the payloads after the journal's position, and the store appends them
only if the store ends at this position. If another writer was first, the store raises
``StoreConflictError``: the caller catches up, decides again, and appends again.

*Outcome.* A store may fail to answer a write. Then the write is *unsettled*: the journal compares
the end of the store with the end of the write. While the store does not answer, the journal refuses
further writes and catch-ups.

*Catch-up.* ``catch_up`` reads the records of other writers, verifies each tag and the chain, and
compares the end of the store. A journal never moves back: fewer records than before, or different
records, are a rollback.

*Epoch change.* ``begin_epoch`` seals a base under the same data key or a new data key. Other
journals notice the new epoch number and read the whole epoch. If the epoch begins before the known
position, that is a rollback. If the epoch begins exactly there, the chain values must agree. If it
begins later, the records between are deleted and nothing connects the two (decision 0034).

*Two places.* With several writers, ``append(early=True)`` returns before the records are durable.
So the journal has two places: ``written``, after which the next write comes, and ``position``, up
to which everything is durable. ``flush`` moves ``position`` to ``written``, and so does each write
with a flush. After a crash of the database, the store may end between the two places. ``catch_up``
then returns the journal to ``position`` and raises ``TailLostError``. A store that ends before
``position``, or has different records there, is a rollback (decision 0072).
"""

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from typing import Final

import msgspec

from keyhouse.base.errors import KeyhouseError, UnavailableError
from keyhouse.base.secret import Secret
from keyhouse.journal.chain import (
    Continuation,
    Replay,
    Sealer,
    Write,
    index_mac_key,
    key_check,
    weight,
)
from keyhouse.journal.epoch_reader import (
    RolledBackError,
    check_sizes,
    open_events,
    read_epoch,
    require_head,
    require_start,
)
from keyhouse.journal.outcome import NotDurableError, OutcomeLostError, require_happened
from keyhouse.journal.store.protocol import (
    NOTHING,
    Beside,
    EpochStart,
    Flush,
    OutcomeUnknownError,
    Position,
    Store,
    StoreConflictError,
    StoreDamagedError,
    Trail,
    first_link,
)

_LIGHTEST_BASE = 1024 * 1024  # bytes, chosen: a journal with fewer events gets no new base


class TailLostError(UnavailableError):
    """The store has lost records that were not durable. The journal is at ``position`` again."""

    code = "tail-lost"


class Weight(msgspec.Struct, frozen=True):
    """The size in bytes of an epoch's base, and of the events after the base."""

    base: int
    since: int


class _Durable(msgspec.Struct, frozen=True):
    """The durable end of a journal, and the size of the events before it.

    The epoch is the epoch of ``written``, because a new epoch is durable at once.
    """

    position: Position
    weight: int


class Journal:
    """The records of one deployment, from the base of the present epoch on.

    A journal object belongs to one writer; its calls run in sequence. After a cancelled write, or a
    write with an unknown outcome, the journal refuses writes and reads until ``settle`` has
    determined the outcome.
    """

    def __init__(self, store: Store, *, store_id: bytes, dek: Secret, position: Position) -> None:
        """Continue at ``position``, verified by the caller (see ``create`` and ``open``).

        ``dek``: the data key of the present epoch.
        """
        self.store_id = store_id
        self.written = position
        self.store: Final = store
        self.dek = dek  # the data key of the present epoch
        self._durable: _Durable | None = None  # None: everything before ``written`` is durable
        self._flush: Flush | None = None  # makes everything before ``written`` durable
        self.returns = 0  # the number of returns to the durable place
        self._sealer = Sealer(dek, store_id, position.epoch)
        self._turn = asyncio.Lock()
        self._unsettled: Write | None = None
        self.trail: Final = Trail()
        self.trail.record(position)
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
        """Begin a durable epoch with ``base`` in an empty store.

        ``after`` is the position of a journal in another store: the new journal continues its
        epochs, sequence numbers and chain. None: a new journal. ``beside``: data that the store
        commits with the epoch. Raises ``StoreConflictError`` if the store is not empty.
        """
        check_sizes(store_id, dek)
        before = Position(0, 0, first_link(store_id)) if after is None else after
        journal = cls(store, store_id=store_id, dek=dek, position=before)
        await journal._begin(base, dek, expected=None, beside=beside)
        return journal

    @classmethod
    async def open(
        cls, store: Store, *, store_id: bytes, dek: Secret, at_least: Position | None = None
    ) -> "tuple[Journal, Replay]":
        """Return the journal in ``store``, after a check of all records from the base on.

        ``dek``: the data key of the present epoch. ``at_least``: a position that the journal has
        once reached; an earlier end is a rollback. Raises ``StoreEmptyError``,
        ``StoreDamagedError``, ``StoreNewerError``, ``WrongKeyError`` or ``RolledBackError``.
        """
        places, replay = await read_epoch(store, store_id, dek, at_least)
        journal = cls(store, store_id=store_id, dek=dek, position=places[-1])
        journal.trail.record(*places)
        journal._weigh(replay)
        return journal, replay

    @property
    def position(self) -> Position:
        """Return the place up to which everything is durable."""
        return self.written if self._durable is None else self._durable.position

    async def append(self, payloads: Sequence[bytes], *, early: bool = False) -> Position:
        """Return the position after ``payloads`` once all are durable, in one transaction.

        With ``early``, this may return before they are durable: then ``position`` is before the
        returned place, and ``flush`` must follow.

        ``StoreConflictError``: nothing was written; catch up, decide again, and append again.
        ``StoreFullError``, ``NotDurableError``: nothing was written. ``OutcomeUnknownError``: the
        store could not be read back; call ``settle``. ``OutcomeLostError``: as for ``settle``.
        """
        async with self._turn:
            self._require_settled()
            if not payloads:
                return self.written
            write = Write(self._sealer, self.dek, expected=self.written, after=self.written)
            records = write.seal_events(payloads)
            append = self.store.append_early if early else self.store.append
            return await self._carry_out(write, append(self.written, records, write.head))

    async def flush(self) -> None:
        """Return after all records before the present ``written`` are durable.

        Other calls may run meanwhile. Raises ``OutcomeUnknownError`` if the store may have lost
        records after ``position``: catch up, and repeat this call.
        """
        flush, end, returns = self._flush, self._end(), self.returns
        if self._durable is None or flush is None:
            return
        await flush()
        self._confirm(end, returns)

    def _confirm(self, end: _Durable, returns: int) -> None:
        """Record that ``end`` is durable, unless the journal has returned to an earlier place.

        ``returns``: the number of such returns before the flush.
        """
        # Another call may have moved the durable place already, also backwards (``_return``).
        if self._durable is None or self.returns != returns:
            return
        if end.position == self.written:
            self._durable = self._flush = None
        elif end.position.sequence > self._durable.position.sequence:
            self._durable = end

    async def settle(self) -> Position:
        """Return the place after the last write, if the store has the write. Raise otherwise.

        Call this after ``OutcomeUnknownError`` or a cancelled write. Errors are as for ``append``.
        After ``OutcomeUnknownError`` repeat the call. ``OutcomeLostError``: the write may have
        happened; catch up and continue. After any other error the write never happens.
        """
        async with self._turn:
            if self._unsettled is not None:
                await self._settle(self._unsettled)
            return self.written

    def assume_durable(self) -> None:
        """Treat all records before ``written`` as durable, because no writer appends early."""
        self._durable = self._flush = None

    async def catch_up(self) -> Replay | Continuation:
        """Return the verified records of other writers after ``written``, and move there.

        A ``Continuation`` has the events after ``written``. They may not be durable yet: then
        ``flush`` must follow. A ``Replay`` is a new epoch of another writer: its base replaces all
        older records. A ``Replay`` is durable. Raises ``WrongKeyError`` if that epoch has another
        data key. Raises ``RolledBackError`` if the store has lost records, also if it has different
        records in their place.

        Raises ``TailLostError`` if the store has lost only records after ``position``: the journal
        is at ``position`` again, and this call must be repeated.
        """
        async with self._turn:
            self._require_settled()
            try:
                return await self._catch_up()
            except RolledBackError:
                if self._durable is None:
                    raise
                raise self._return() from None

    async def _catch_up(self) -> Replay | Continuation:
        events, places = list[bytes](), [self.written]
        before = self.written
        while True:
            batch = await self.store.read(before.sequence)
            start = require_start(batch, self.store_id)
            if start.epoch != self.written.epoch:
                return await self._reopen(self.dek)
            try:
                opened = await open_events(self._sealer, before, batch.records)
            except StoreDamagedError:
                # The records are damaged, or they continue another journal. A read from the
                # base distinguishes the two cases.
                return await self._reopen(self.dek)
            events += (payload for payload, _ in opened)
            places += (place for _, place in opened)
            before = places[-1]
            if not batch.records or batch.head == before:
                break
        require_head(batch, before)
        # The chain connects the new end with all earlier records, so its flush covers them, too.
        self._record_flush(batch.flush if events or self._durable else None)
        self.written = before
        self.trail.record(*places)
        self._weight += weight(events)
        return Continuation(tuple(events))

    async def switch(self, dek: Secret) -> Replay:
        """Move to another writer's epoch under ``dek``, a key without any proof.

        Call this after ``WrongKeyError``. Errors are as for ``catch_up``; an error changes nothing.
        """
        async with self._turn:
            self._require_settled()
            return await self._reopen(dek)

    async def begin_epoch(
        self, base: Iterable[bytes], *, dek: Secret | None = None, beside: Beside = NOTHING
    ) -> Position:
        """Replace all older records by ``base``, a new epoch; return once this is durable.

        ``dek``: the new data key; None: the data key does not change. ``base`` has at least one
        payload, each of bounded size. It is consumed and sealed off the event loop. An error of
        ``base`` undoes everything and is raised. ``beside``: data that the store commits with the
        epoch. Errors as for ``append``.
        """
        async with self._turn:
            self._require_settled()
            key = self.dek if dek is None else dek
            return await self._begin(base, key, expected=self.written, beside=beside)

    @property
    def settled(self) -> bool:
        """Return False after a write with an unknown outcome: ``settle`` must be the next call."""
        return self._unsettled is None

    @property
    def weight(self) -> Weight:
        """Return the size in bytes of the present base, and of the events after the base."""
        return Weight(self._base_weight, self._weight)

    def outweighs_base(self) -> bool:
        """Return whether a new base is due.

        A base is due if the events are larger than the base and than 1 MiB. A base is also due if
        the store lacks records: the base replaces them from memory.
        """
        return not self.store.is_whole or self._weight > max(self._base_weight, _LIGHTEST_BASE)

    def index_mac_key(self, epoch: int) -> Secret:
        """Return the 32-byte HMAC key for the recovery index of ``epoch`` under this data key."""
        return index_mac_key(self.dek, self.store_id, epoch)

    def _next_start(self, dek: Secret) -> EpochStart:
        epoch = self.written.epoch + 1
        return EpochStart(
            store_id=self.store_id,
            epoch=epoch,
            first=self.written.sequence + 1,
            previous=self.written.chain,
            key_check=key_check(dek, self.store_id, epoch),
        )

    async def _begin(
        self, base: Iterable[bytes], dek: Secret, *, expected: Position | None, beside: Beside
    ) -> Position:
        """Begin the next epoch with ``base`` under the data key ``dek``.

        ``expected``: the end of the store; None: the store is empty.
        """
        start = self._next_start(dek)
        sealer = Sealer(dek, self.store_id, start.epoch)
        write = Write(sealer, dek, expected=expected, after=start.before)
        return await self._carry_out(
            write, self.store.begin_epoch(expected, start, write.seal_base(base), beside)
        )

    async def _carry_out(
        self, write: Write, attempt: Coroutine[None, None, Flush | None]
    ) -> Position:
        """Run ``attempt``, which stores ``write``; return the position after ``write``."""
        self._unsettled = write
        try:
            flush = await attempt
        except OutcomeUnknownError:
            await self._settle(write)
        except KeyhouseError:
            self._unsettled = None
            raise
        except Exception:
            # An error of the base comes before the commit. A later error is a fault of the store.
            if not write.complete:
                self._unsettled = None
            raise
        else:
            self._move_behind(write, flush)
        return self.written

    async def _settle(self, write: Write) -> None:
        """Move the journal after ``write`` if the write has happened. Raise otherwise."""
        try:
            await require_happened(self.store, write)
        except (NotDurableError, StoreConflictError, OutcomeLostError):
            self._unsettled = None
            raise
        except (UnavailableError, OutcomeUnknownError):
            raise _outcome_unknown() from None
        # ``Store.settle`` has committed after the write, so the write is durable.
        self._move_behind(write, None)

    def _move_behind(self, write: Write, flush: Flush | None) -> None:
        self._record_flush(flush)
        if write.head.epoch == self.written.epoch:
            self._weight += write.weight
        else:
            self._base_weight, self._weight = write.weight, 0
            self.dek, self._sealer = write.dek, write.sealer
        self.written, self._unsettled = write.head, None
        self.trail.record(write.head)

    async def _reopen(self, dek: Secret) -> Replay:
        """Move to the epoch of another writer, under ``dek``. Afterwards, everything is durable.

        The new epoch does not show whether earlier records were durable. So their flush comes
        first.
        """
        if self._durable is not None and self._flush is not None:
            try:
                await self._flush()
            except OutcomeUnknownError:
                raise self._return() from None
            self._durable = self._flush = None
        places, replay = await read_epoch(self.store, self.store_id, dek, self.written)
        self.written, self.dek = places[-1], dek
        self.trail.record(*places)
        self._sealer = Sealer(dek, self.store_id, self.written.epoch)
        self._weigh(replay)
        return replay

    def _end(self) -> _Durable:
        return _Durable(self.written, self._weight)

    def _record_flush(self, flush: Flush | None) -> None:
        """Record ``flush``, which makes the next place durable; None: that place is durable.

        Call this before ``written`` moves: the present place may be the last durable place.
        """
        if flush is None:
            self._durable = None
        elif self._durable is None:
            self._durable = self._end()
        self._flush = flush

    def _return(self) -> TailLostError:
        """Return to the durable place, as the store has lost later records."""
        durable = self._durable
        assert durable is not None  # noqa: S101 - the callers check this
        self.written, self._weight = durable.position, durable.weight
        self._durable = self._flush = None
        self.trail.forget_after(durable.position.sequence)
        self.returns += 1
        return TailLostError("the store has lost changes that were not acknowledged")

    def _weigh(self, replay: Replay) -> None:
        self._base_weight = weight(replay.base)
        self._weight = weight(replay.events)

    def _require_settled(self) -> None:
        if self._unsettled is not None:
            raise _outcome_unknown()


def _outcome_unknown() -> OutcomeUnknownError:
    return OutcomeUnknownError(
        "a write may or may not have happened: the store cannot be read back",
        hint="check the disk or the database of the state, then restart to determine the outcome",
    )

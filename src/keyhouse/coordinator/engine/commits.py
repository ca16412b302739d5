"""Decide a batch of commands, make their changes durable, and then publish them.

The commands are decided in order, each on the state after the commands before it. A refused command
fails alone. One write appends the events of the batch to the journal. Only after the write is
durable, the new state is published.

A write has three outcomes. If the write has certainly failed, the old state remains. If another
writer was first, the batch is decided again on the newer state. If the outcome is unknown, no other
write begins until the store reveals the outcome.
"""

import asyncio
from collections.abc import Awaitable, Iterable, Sequence
from contextlib import suppress
from time import perf_counter
from typing import Final

import msgspec
from msgspec.structs import replace

from keyhouse.base.errors import RefusedError
from keyhouse.base.log import log
from keyhouse.base.secret import Secret
from keyhouse.coordinator.core.base import Filed, base_events
from keyhouse.coordinator.core.commands import (
    AcknowledgeUpdate,
    Activate,
    Command,
    InitiateUpdate,
    RecordActivations,
    RevokeWorkloads,
    SetCounter,
    SetManifest,
    StaleError,
    UploadSecrets,
)
from keyhouse.coordinator.core.context import Context
from keyhouse.coordinator.core.decide import decide
from keyhouse.coordinator.core.events import (
    Event,
    LineExtended,
    ManifestSet,
    ManifestUpdated,
    Published,
    SecretsUploaded,
)
from keyhouse.coordinator.core.evolve import evolve_all, with_leaves
from keyhouse.coordinator.core.lineages import INLINE, is_cleaning_due
from keyhouse.coordinator.core.publishing import Publishing, leaves_of, objects_of
from keyhouse.coordinator.core.state import Running, State
from keyhouse.coordinator.core.update_log import UpdateLog
from keyhouse.coordinator.engine.current import Current
from keyhouse.coordinator.engine.following import Following
from keyhouse.coordinator.engine.records import EVENTS, encode_events
from keyhouse.coordinator.engine.start_proofs import StartQuotes
from keyhouse.coordinator.engine.unflushed import (
    REPORT_UNKNOWN_AFTER,
    Unflushed,
    Written,
    not_settled,
)
from keyhouse.coordinator.engine.work_queue import (
    BATCH,
    WAITING,
    AcceptedCommand,
    WaitingCommand,
    WorkQueue,
    goes_alone,
)
from keyhouse.coordinator.engine.writer import JournalWriter
from keyhouse.coordinator.origin.checks import Origin
from keyhouse.journal import (
    NotDurableError,
    OutcomeLostError,
    OutcomeUnknownError,
    StoreConflictError,
    UnencodableError,
)
from keyhouse.transparency.tree import Frontier

_EFFECTIVE: Final = (ManifestSet, ManifestUpdated)
_FIRST_PAUSE: Final = 0.05  # seconds, doubled up to the longest
_LONGEST_PAUSE: Final = 0.5  # seconds

_EARLY: Final = (UploadSecrets, Activate, RecordActivations, SetCounter)
"""Commands whose append may come before the flush. Others change who may do anything."""

_CONTENDED_FOR: Final = 1.0
"""Seconds after a conflict in which early batches of several commands request a turn at once.

While others hold or await a turn, the database refuses each write without a turn. Measured with
three replicas and 32 clients: it refused 73 of 100 first attempts, after an eighth of the latency.
A lone command is a sign of little load, and a turn would cost it two further round trips.
"""

_WALKS: Final = (RevokeWorkloads, InitiateUpdate, AcknowledgeUpdate)
"""Commands whose decision walks all lineages."""


class DecidedBatch(msgspec.Struct, frozen=True):
    """A batch after its decisions: accepted and refused commands, events, and the new state."""

    accepted: list[AcceptedCommand]
    refused: list[tuple[WaitingCommand, Exception]]  # commands without effect
    events: list[Event]
    payloads: list[bytes]  # the encoded events; empty if the command goes alone
    state: State
    objects: list[bytes]  # named by the leaves


class Commits:
    """Makes the events of commands durable, then publishes the new view."""

    def __init__(
        self,
        current: Current,
        writer: JournalWriter,
        following: Following,
        queue: WorkQueue,
        quotes: StartQuotes,
        origin: Origin | None,
        unflushed: Unflushed,
        *,
        shares_store: bool,
    ) -> None:
        self._unflushed = unflushed
        self._current = current
        self._writer = writer
        self._following = following
        self._queue = queue
        self._quotes = quotes
        self._origin = origin
        self._shares_store = shares_store
        self.unsettled = False  # True: the outcome of a write is unknown
        self._contended_until = 0.0  # time of the event loop

    async def write(self, batch: list[WaitingCommand]) -> None:
        """Make the changes of ``batch`` durable, and answer each command.

        With several writers, this may return before the flush. ``Unflushed`` then answers the
        commands after the flush. During the wait for a turn, later commands join ``batch``.
        """
        calm = not _walks_many(self._current.state, batch)
        early = calm and all(isinstance(each.command, _EARLY) for each in batch)
        if self._unflushed.waiting and not (early and self._unflushed.callers < WAITING):
            await self._following.drained()
        waiting = list(batch)
        try:
            in_turn = early and len(batch) > 1 and self._is_contended()
            if not in_turn and await self._commit_first(waiting):
                return
            await self._commit_in_turn(batch, waiting, early=early)
        except NotDurableError:
            # A connection was lost. The next connection proves the change undone, so the engine
            # decides it again, once, in place of an error for its client.
            if not self._shares_store or _any_answered(waiting):
                raise
            await self._commit_in_turn(batch, waiting, early=early)

    async def settled(
        self, write: Awaitable[object], batch: Sequence[AcceptedCommand] = ()
    ) -> None:
        """Await ``write``, which stores the changes in ``batch``. Raise if the write has failed.

        After ``REPORT_UNKNOWN_AFTER`` seconds without a result, the callers get an error. For a
        store with one writer, these seconds begin only when the outcome is unknown. An earlier
        timer would cost time in each change, and a write to a file ends by itself.
        """
        reporting = self._report_later(batch) if self._shares_store else None
        try:
            try:
                await write
            except OutcomeUnknownError:
                self.unsettled = True
                reporting = reporting or self._report_later(batch)
                await _settle(self._writer, self._queue.stopping)
            finally:
                self.unsettled, self._queue.paused = False, self._unflushed.overdue
                if reporting is not None:
                    reporting.cancel()
        except OutcomeLostError:
            self._queue.behind = True
            raise not_settled() from None

    async def _commit(self, decided: DecidedBatch) -> None:
        """Make ``decided`` durable, then publish it. Raises ``StoreConflictError``."""
        if not decided.events:
            self._unflushed.answer(decided.accepted)
            return
        if not decided.payloads:  # the command begins a journal or an epoch
            decided = await self._with_line(await self._with_start_quote(decided))
        began = perf_counter()
        alone = decided.payloads and not decided.objects  # the common case, a single append
        early = bool(alone) and self._is_early(decided)
        if alone:
            append = self._writer.present.append(decided.payloads, early=early)
            write: Awaitable[object] = append
        else:
            write = self._make_durable(decided)
        await self.settled(write, decided.accepted)
        if early and (place := self._writer.written) is not None:
            now = asyncio.get_running_loop().time()
            self._unflushed.add(
                Written(place, decided.state, decided.events, decided.accepted, [], now)
            )
            return
        self._queue.counts.committed(len(decided.accepted), perf_counter() - began)
        if self._unflushed.waiting:
            self._unflushed.confirm()  # the write was behind these changes
        self._current.publish(decided.state, decided.events)
        await self._writer.cover_votes()
        self._queue.answer(self._current.view, decided.accepted)

    def _is_early(self, decided: DecidedBatch) -> bool:
        """Return whether ``decided`` is appended before its flush (decision 0072)."""
        if self._unflushed.waiting:
            return True  # a later change cannot be durable before an earlier change
        state = decided.state
        shares = isinstance(state, Running) and state.shares_flush
        return shares and self._following.is_crowded and _all_early(decided)

    async def _with_start_quote(self, decided: DecidedBatch) -> DecidedBatch:
        """Return ``decided`` with a quote about this process, if ``decided`` begins a journal."""
        first = decided.accepted[0]
        begins = isinstance(first.waiting.command, SetManifest)
        if not begins or not isinstance(decided.state, Running):
            return decided
        self._current.lease.begin()
        root = decided.state.keys.root_cert
        quoted = await self._quotes.with_quote(decided.events, Frontier(), root)
        return replace(
            decided,
            events=list(quoted.events),
            objects=[*decided.objects, *quoted.objects],
            state=evolve_all(first.before, quoted.events),
        )

    async def _with_line(self, decided: DecidedBatch) -> DecidedBatch:
        """Return ``decided`` with an entry of the line and its quote, if a manifest takes effect.

        Raises ``UnavailableError`` without a quote, or ``ConflictError`` if the line is full.
        """
        before, state = decided.accepted[0].before, decided.state
        effective = [each for each in decided.events if isinstance(each, _EFFECTIVE)]
        if self._origin is None or not effective or not isinstance(state, Running):
            return decided
        time = effective[0].time
        if isinstance(before, Running):
            made = await self._origin.update_entries(before, state, time)
        else:
            made = await self._origin.creation_entries(state, time)
        if not made.items:
            return decided
        extended = LineExtended(made.items)
        return replace(
            decided,
            events=[*decided.events, extended],
            objects=[*decided.objects, *made.objects],
            state=evolve_all(state, (extended,)),
        )

    def _is_contended(self) -> bool:
        return asyncio.get_running_loop().time() < self._contended_until

    async def _commit_first(self, waiting: list[WaitingCommand]) -> bool:
        """Decide and commit ``waiting`` without a turn. Return False if another writer was first.

        Removes the refused commands from ``waiting``: they have their answers.
        """
        decided = await self._decide(waiting)
        waiting[:] = [each.waiting for each in decided.accepted]
        try:
            await self._commit(decided)
        except StoreConflictError:
            self._contended_until = asyncio.get_running_loop().time() + _CONTENDED_FOR
            return False
        return True

    async def _commit_in_turn(
        self, batch: list[WaitingCommand], waiting: list[WaitingCommand], *, early: bool
    ) -> None:
        """Wait for a turn, then decide and commit ``waiting``, the unanswered part of ``batch``.

        ``early``: the commands do not wait until all earlier records are durable, as in
        ``Following.in_turn``. Then the commands of the queue join both lists.
        """

        async def commit() -> None:
            if early:
                late = self._queue.pop_further(BATCH - len(batch), _EARLY)
                batch.extend(late)
                waiting.extend(late)
            decided = await self._decide(waiting)
            waiting[:] = [each.waiting for each in decided.accepted]
            await self._commit(decided)

        await self._following.in_turn(commit, early=early)

    def _report_later(self, batch: Sequence[AcceptedCommand]) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(REPORT_UNKNOWN_AFTER, self._pause, batch)

    def _pause(self, batch: Iterable[AcceptedCommand]) -> None:
        """Answer the callers of ``batch`` that the outcome is unknown; refuse further changes.

        The engine accepts changes again when the store answers.
        """
        callers = (each.waiting for each in batch if each.waiting.answer is not None)
        self._queue.fail(callers, not_settled())
        self._queue.pause()

    async def _decide(self, batch: Sequence[WaitingCommand]) -> DecidedBatch:
        """Decide ``batch`` on the present state, and answer the refused commands.

        A decision that walks many lineages runs in a thread. Meanwhile nothing changes the state:
        only the engine decides, and no earlier append waits for its flush.
        """
        state, context = self._current.state, self._current.context()
        if _walks_many(state, batch) and not self._unflushed.waiting:
            decided = await asyncio.to_thread(decide_batch, batch, state, context)
        else:
            decided = decide_batch(batch, state, context)
        if decided.refused:
            self._unflushed.refuse(decided.refused)
        return decided

    async def _make_durable(self, decided: DecidedBatch) -> None:
        command, state = decided.accepted[0].waiting.command, decided.state
        if decided.payloads:
            await self._writer.public_log.put_objects(decided.objects)
            await self._writer.present.append(decided.payloads)
            return
        assert isinstance(state, Running)  # noqa: S101 a manifest was just set
        after = UpdateLog(decided.events, before=self._current.view.log)
        leaves = leaves_of(decided.events)
        if isinstance(command, SetManifest):
            base = encode_events(base_events(state, after.view(), Filed(Frontier(), leaves)))
            await self._writer.establish(command, base, decided.objects, state)
            await self._following.publish_quote()
        else:
            dek = new_dek(command)
            notes = () if dek is None else await self._following.switches(state, dek)
            await self._writer.public_log.put_objects(decided.objects)
            await self._writer.begin_epoch(state, after.view(), dek=dek, notes=notes, leaves=leaves)


def decide_batch(batch: Sequence[WaitingCommand], before: State, context: Context) -> DecidedBatch:
    """Decide each command of ``batch`` on the state after the commands before it."""
    state = before
    accepted: list[AcceptedCommand] = []
    refused: list[tuple[WaitingCommand, Exception]] = []
    events: list[Event] = []
    causes: list[WaitingCommand] = []  # the command of each event
    objects: list[bytes] = []
    publishing = Publishing(context)
    for waiting in batch:
        try:
            happened = decide(state, waiting.command, context)
        except (RefusedError, StaleError) as refusal:
            refused.append((waiting, refusal))
        else:
            accepted.append(AcceptedCommand(waiting, state))
            publishing.add(state, waiting.command, happened)
            state = evolve_all(state, happened)
            events += happened
            causes += [waiting] * len(happened)
            objects += objects_of(waiting.command, happened)
    if isinstance(state, Running) and state.public_log and (leaves := publishing.finish()):
        state = with_leaves(state, leaves)
        if events and isinstance(last := events[-1], SecretsUploaded):
            events[-1] = replace(last, leaves=leaves)
        else:
            events.append(Published(leaves))
            causes.append(accepted[-1].waiting)
    payloads: list[bytes] = []
    alone = bool(accepted) and goes_alone(accepted[0].waiting.command)
    for event, cause in zip(() if alone else events, causes, strict=False):
        try:
            payloads.append(EVENTS.encode_checked(event))
        except UnencodableError as error:
            # The commands after it were decided on its state, so all others are decided again.
            again = decide_batch([each for each in batch if each is not cause], before, context)
            return replace(again, refused=[*again.refused, (cause, error)])
    return DecidedBatch(accepted, refused, events, payloads, state, objects)


def _walks_many(state: State, batch: Iterable[WaitingCommand]) -> bool:
    if not isinstance(state, Running) or len(state.lineages) <= INLINE:
        return False
    commands = [each.command for each in batch]
    if any(isinstance(each, _WALKS) for each in commands):
        return True
    joining = sum(isinstance(each, Activate) for each in commands)
    return joining > 0 and is_cleaning_due(len(state.lineages), joining)


def _all_early(decided: DecidedBatch) -> bool:
    return all(isinstance(each.waiting.command, _EARLY) for each in decided.accepted)


def _any_answered(waiting: Iterable[WaitingCommand]) -> bool:
    """Return whether a caller in ``waiting`` has gone, or knows that the outcome is unknown."""
    answers = (each.answer for each in waiting)
    return any(answer is not None and answer.done() for answer in answers)


def new_dek(command: Command) -> Secret | None:
    """Return the data key of ``command`` for the next epoch; None if the key does not change."""
    if isinstance(command, InitiateUpdate | AcknowledgeUpdate) and command.application:
        return command.application.dek
    return None


async def _settle(writer: JournalWriter, stopping: asyncio.Event) -> None:
    """Return after the last write of ``writer`` has certainly happened. There is no time limit.

    Errors as for ``JournalWriter.settle``. ``OutcomeUnknownError``: the engine stops (``stopping``
    is set) before the outcome is known.
    """
    log.error("the store does not answer: nobody knows whether the last change is durable")
    pause = _FIRST_PAUSE
    while True:
        with suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await stopping.wait()
        pause = min(2 * pause, _LONGEST_PAUSE)
        try:
            await writer.settle()
        except OutcomeUnknownError:
            if stopping.is_set():
                raise
        else:
            log.warning("the store answers again: the last change is durable")
            return

"""The single writer: takes queued commands, decides them, makes them durable, publishes, answers.

One task runs ``Engine.run``. A batch is decided command by command on a tentative state; a refused
command fails alone. The events of the batch become durable in one append. Then, and only then, the
new state is published and the callers are answered. If the append certainly failed, the old state
remains. If its outcome is unknown, the engine pauses until the store tells it; reads are answered
meanwhile. The cost is that of the change itself, except for a new epoch from time to time.

Others may write to the same store. A writer that was outrun decides again on what they wrote, and
the view follows them as soon as the store says that there is something new.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from time import perf_counter
from typing import Final, NamedTuple

from keyhouse.base.errors import BrokenError, RefusedError, UnavailableError, UnsettledError
from keyhouse.base.log import log
from keyhouse.base.secret import Secret
from keyhouse.coordinator.activation.audit_buffer import AuditBuffer
from keyhouse.coordinator.core.base import Filed, base_events
from keyhouse.coordinator.core.commands import Command, RecordActivations, SetManifest
from keyhouse.coordinator.core.context import Context, FirstManifestRule
from keyhouse.coordinator.core.events import Activated, Event
from keyhouse.coordinator.core.evolve import evolve_all
from keyhouse.coordinator.core.publishing import leaves_of, objects_of, start_events
from keyhouse.coordinator.core.state import Member, Running, State
from keyhouse.coordinator.core.update_log import UpdateLog
from keyhouse.coordinator.engine.batch import (
    Accepted,
    Decided,
    Decision,
    Waiting,
    decide_batch,
    goes_alone,
    new_dek,
)
from keyhouse.coordinator.engine.certificate_ends import warn_of_expiry
from keyhouse.coordinator.engine.clock import SecurityClock
from keyhouse.coordinator.engine.counts import EngineCounts
from keyhouse.coordinator.engine.log_signing import LateLog, signed_checkpoint
from keyhouse.coordinator.engine.records import LogTail, applied, encode_events, rebuild
from keyhouse.coordinator.engine.recover import Recovery, recover
from keyhouse.coordinator.engine.settling import not_settled, paused, settle
from keyhouse.coordinator.engine.shared import Held, Shared
from keyhouse.coordinator.engine.view import View, at
from keyhouse.coordinator.engine.writer import JournalWriter
from keyhouse.journal import (
    LogStore,
    OutcomeLostError,
    OutcomeUnknownError,
    Position,
    Replay,
    StoreConflictError,
    Weight,
    WrongKeyError,
)
from keyhouse.journal.store.records import Note
from keyhouse.transparency.tree import Frontier

WAITING = 1024
"""Commands that may wait; one more is refused, to be retried."""

BATCH = 256
"""Commands that share one append."""


TURNS: Final = 16
"""How often the engine waits for its turn to write, after others were first; then it gives up."""


class Process(NamedTuple):
    """The identity of this process, as its ``Started`` record has it, and its measured settings."""

    platform: str
    instance: bytes  # 16 random bytes
    version: str
    measurement: bytes
    first_manifest: FirstManifestRule = FirstManifestRule()
    removed_may_cancel: bool = True
    member: Member | None = None  # what others are told of it, if it shares its store
    shares_store: bool = False  # with other coordinators
    signer: bytes = bytes(32)
    product: int = 0
    security_version: int = 0


class _WaitingRecovery(NamedTuple):
    recovery: Recovery
    answer: "asyncio.Future[View]"


def _fail_recoveries(waiting: Iterable[_WaitingRecovery], error: Exception) -> None:
    for each in waiting:
        if not each.answer.done():
            each.answer.set_exception(error)


class Engine:
    """Owns the state, the journal's writer and the update log. Readers take ``view``."""

    def __init__(
        self,
        *,
        writer: JournalWriter,
        clock: SecurityClock,
        process: Process,
        state: State,
        update_log: UpdateLog | None = None,
        shared: Shared | None = None,
    ) -> None:
        self._writer = writer
        self._clock = clock
        self._process = process
        self._shared = shared
        self._log = update_log or UpdateLog()
        self._waiting: deque[Waiting] = deque()
        self._recoveries: deque[_WaitingRecovery] = deque()
        self._audit_buffer = AuditBuffer()
        self._wake = asyncio.Event()
        self._stopping = asyncio.Event()
        self._behind = False  # whether others may have written what the view does not show
        self._unreadable = False  # whether that could not be read the last time
        self._unsettled = False  # whether the outcome of a write is not known
        self._paused = False  # whether the store has not answered for long
        self._broken: BrokenError | None = None
        self._warned_of = b""
        self._published: Callable[[], None] = lambda: None
        self.counts: Final = EngineCounts()
        self.view = View(state, writer.position, self._log.view())
        writer.watch(self.look)

    def now(self) -> int:
        """Return the security time: microseconds since 1970, never before what is journalled."""
        state, now = self.view.state, self._clock.now()
        return max(now, state.time) if isinstance(state, Running) else now

    def require_clock(self) -> None:
        """Refuse to begin a deployment while the host's clock is wrong.

        Raises:
            UnavailableError: the clock is more than a year ahead of what is known.
        """
        if self._clock.is_ahead():
            raise UnavailableError(
                "the clock of this machine is more than a year ahead of what is known",
                hint="set the clock; if it is right, start with --confirm-clock",
            )

    @property
    def clock(self) -> SecurityClock:
        """The clock of this process."""
        return self._clock

    @property
    def instance(self) -> bytes:
        """What tells this process from every other: 16 random bytes."""
        return self._process.instance

    @property
    def is_broken(self) -> bool:
        """Whether it is not known what is durable: nothing is written until a restart."""
        return self._broken is not None

    @property
    def is_settled(self) -> bool:
        """Whether the store answers as far as is known, and the outcome of each write is known."""
        return not (self._unsettled or self._unreadable or self._broken)

    @property
    def waiting(self) -> int:
        """How many commands wait for the next batch."""
        return len(self._waiting)

    @property
    def weight(self) -> Weight | None:
        """The size of the journal; None while there is none."""
        return self._writer.weight

    @property
    def held(self) -> Held | None:
        """What other replicas may be given; None while there is nothing, or it just changes."""
        state = self.view.state
        if self._broken or not isinstance(state, Running):
            return None
        return self._writer.held(self.view.position, state)

    @property
    def first_manifest(self) -> FirstManifestRule:
        """Which manifest may begin a deployment here."""
        return self._process.first_manifest

    @property
    def shares_store(self) -> bool:
        """Whether other coordinators may serve the same state."""
        return self._process.shares_store

    @property
    def public_log(self) -> LogStore:
        """The tiles and objects of the transparency log."""
        return self._writer.public_log

    @property
    def unrecorded(self) -> int:
        """How many activations are in the audit buffer."""
        return len(self._audit_buffer)

    def record(self, activated: Activated) -> None:
        """Put an activation without a limit into the audit buffer, for one of the next commits.

        Raises ``UnavailableError`` if the buffer is full or the engine stops: then the activation
        must not happen.
        """
        if self._stopping.is_set():
            raise UnavailableError("the coordinator is stopping", hint="try again later")
        if self._audit_buffer.add(activated, asyncio.get_running_loop().time()):
            self._wake.set()

    async def submit(self, command: Command) -> View:
        """Return the view that holds the change, once it is durable.

        Raises as ``decision``.
        """
        return (await self.decision(command)).view

    async def decision(self, command: Command) -> Decision:
        """Return the result of ``command``, once it is durable.

        A caller that is cancelled stops waiting; the change still happens.

        Raises:
            Refused, Stale: as ``decide`` says; nothing changed.
            UnavailableError: too many wait, the disk is full, the store does not answer, or the
                coordinator stops; nothing changed.
            UnsettledError: the change may have happened, or may still happen.
            BrokenError: whether the change is durable is not known until a restart.
        """
        if self._broken:
            raise self._broken
        if self._stopping.is_set():
            raise UnavailableError("the coordinator is stopping", hint="try again later")
        if self._paused:
            raise paused()
        if len(self._waiting) >= WAITING:
            self.counts.changes["unavailable"] += 1
            raise UnavailableError("too many changes are waiting", hint="try again later")
        answer: asyncio.Future[Decision] = asyncio.get_running_loop().create_future()
        self._waiting.append(Waiting(command, answer))
        self._wake.set()
        return await answer

    async def recover(self, recovery: Recovery) -> View:
        """Return the view of the recovered state, once it is durable and sealed.

        Raises:
            Refused, Unavailable: the coordinator stays in recovery mode, with nothing changed.
            BrokenError: what is durable is not known until a restart.
        """
        if self._broken:
            raise self._broken
        if self._stopping.is_set():
            raise UnavailableError("the coordinator is stopping", hint="try again later")
        answer: asyncio.Future[View] = asyncio.get_running_loop().create_future()
        self._recoveries.append(_WaitingRecovery(recovery, answer))
        self._wake.set()
        return await answer

    async def announce(self) -> None:
        """Commit the ``Started`` record of this process, before anything is served."""

        async def append() -> None:
            state, context, begun = self.view.running, self._context(), None
            if state.public_log is None:
                begun, objects = LateLog.of(state, self._log.view(), context.now)
                self._writer.public_log = await self._writer.new_log(
                    begun.verifier, objects, on_disk=self._writer.on_disk
                )
            started = start_events(state, context, begun)
            await self._writer.append(encode_events(started))
            self._publish(evolve_all(state, started), started)

        if self._writer.position is not None:
            await self._in_turn(append)

    async def run(self) -> None:
        """Write until ``stop`` was called and everything submitted before it is answered.

        Raises:
            BrokenError: it is not known what is durable; a restart will read it.
        """
        try:
            await self._warn_of_expiry()
            while await self._has_work():
                if (
                    self._behind
                ):  # others may write all the time: then the changes here take place as well
                    await self._follow()
                if self._recoveries:
                    await self._recover(self._recoveries.popleft())
                elif batch := self._take():
                    await self._serve(batch)
                await self._warn_of_expiry()
                await self._tend()
        except BrokenError as error:
            self._broken = error
            raise
        finally:  # no caller may wait for an engine that does not run
            self._stopping.set()
            stopped = UnavailableError("the coordinator is stopping", hint="try again later")
            self._fail(self._waiting, self._broken or stopped)
            self._waiting.clear()
            _fail_recoveries(self._recoveries, self._broken or stopped)
            self._recoveries.clear()

    def stop(self) -> None:
        """Accept no more commands; ``run`` ends when the waiting ones are answered."""
        self._stopping.set()
        self._wake.set()

    def look(self) -> None:
        """Take over soon what other writers of the store may have written."""
        if not self._stopping.is_set():
            self._behind = True
            self._wake.set()

    def on_view(self, published: Callable[[], None]) -> None:
        """Call ``published`` after each new view."""
        self._published = published

    async def head(self) -> Position | None:
        """Return where the store ends now, which may be further than the view; None if nowhere.

        Raises ``UnavailableError`` if the store does not answer.
        """
        return await self._writer.head()

    def place_at(self, sequence: int) -> Position | None:
        """Return the place after the record ``sequence``; None if it is ahead, or not known."""
        return self._writer.place_at(sequence)

    async def close(self) -> None:
        """Close the journal. Call after ``run`` has ended."""
        state = self.view.state
        log = state.public_log if isinstance(state, Running) else None
        checkpoint = signed_checkpoint(log) if log is not None else b""
        await self._writer.close(clean=self._broken is None, checkpoint=checkpoint)

    async def _has_work(self) -> bool:
        """Wait for something to do; return False when there is nothing and the engine stops."""
        now = asyncio.get_running_loop().time
        while not (self._waiting or self._recoveries or self._audit_buffer.due(now())):
            if self._stopping.is_set():
                return len(self._audit_buffer) > 0
            if self._behind:
                return True
            self._wake.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout_at(self._audit_buffer.due_at()):
                    await self._wake.wait()
        return True

    async def _warn_of_expiry(self) -> None:
        """Log which certificates end soon, for each manifest that comes into force."""
        state = self.view.state
        if isinstance(state, Running) and state.manifest != self._warned_of:
            self._warned_of = state.manifest
            await asyncio.to_thread(warn_of_expiry, state, self.now())

    async def _recover(self, waiting: _WaitingRecovery) -> None:
        """Recover, and answer ``waiting`` in any case. Not in a batch: it opens a journal."""
        try:
            found = await recover(
                self._writer,
                self.view.state,
                waiting.recovery,
                self._context(),
                self._clock,
            )
        except (RefusedError, UnavailableError) as error:
            _fail_recoveries([waiting], error)
        except BaseException as error:
            broken = (
                error if isinstance(error, BrokenError) else BrokenError("the coordinator failed")
            )
            _fail_recoveries([waiting], broken)
            raise
        else:
            self._log, self._clock = found.log, found.clock
            found.serve()
            self._publish(found.state, ())
            if not waiting.answer.done():
                waiting.answer.set_result(self.view)

    # --- one batch ---

    def _take(self) -> list[Waiting]:
        """Take the waiting commands, up to a batch; one that ``goes_alone`` is its own batch."""
        batch: list[Waiting] = []
        while self._waiting and len(batch) < BATCH:
            if goes_alone(self._waiting[0].command):
                return batch or [self._waiting.popleft()]
            batch.append(self._waiting.popleft())
        if self._audit_buffer and (batch or self._must_record()):
            batch.append(Waiting(self._audit_buffer.oldest(), None))
        return batch

    def _must_record(self) -> bool:
        """Tell whether the audit buffer has to be written even if there is no other change."""
        now = asyncio.get_running_loop().time()
        return self._audit_buffer.due(now) or self._stopping.is_set()

    async def _serve(self, batch: list[Waiting]) -> None:
        """Carry out ``batch`` and answer each of its commands in any case."""
        try:
            await self._write(batch)
        except (UnavailableError, UnsettledError) as error:
            log.warning("a change could not be stored", reason=str(error))
            self._fail(batch, error)
        except BaseException as error:
            broken = (
                error if isinstance(error, BrokenError) else BrokenError("the coordinator failed")
            )
            self._fail(batch, broken)
            raise

    async def _write(self, batch: list[Waiting]) -> None:
        decided = self._decide(batch)
        try:
            await self._commit(decided)
        except StoreConflictError:
            decided = await self._commit_in_turn(decided)
        for (command, answer), before in decided.accepted:
            if answer is not None and not answer.done():
                answer.set_result(Decision(self.view, before))
            elif answer is None and isinstance(command, RecordActivations):
                self._audit_buffer.recorded(command, asyncio.get_running_loop().time())

    async def _commit(self, decided: Decided) -> None:
        """Make ``decided`` durable, then publish it. Raises ``StoreConflictError``."""
        if not decided.events:
            return
        began = perf_counter()
        await self._settled(self._make_durable(decided), decided.accepted)
        self.counts.committed(len(decided.accepted), perf_counter() - began)
        self._publish(decided.state, decided.events)

    async def _commit_in_turn(self, decided: Decided) -> Decided:
        """Decide again on what others wrote first, and commit that before they write more."""

        async def commit() -> None:
            nonlocal decided
            decided = self._decide([each.waiting for each in decided.accepted])
            await self._commit(decided)

        await self._in_turn(commit)
        return decided

    async def _in_turn(self, write: Callable[[], Awaitable[None]]) -> None:
        """Catch up and ``write``, with no other writer in between.

        Raises ``StoreConflictError`` if the turn is always lost; nothing was written.
        """
        for _ in range(TURNS):
            with suppress(StoreConflictError):
                async with self._writer.turn():
                    await self._catch_up()
                    await write()
                    return
        raise StoreConflictError("other coordinators write first", hint="try again later")

    async def _settled(self, write: Awaitable[None], batch: Sequence[Accepted] = ()) -> None:
        """Return once ``write``, of the changes in ``batch``, has happened; raise if it has not."""
        try:
            try:
                await write
            except OutcomeUnknownError:
                self._unsettled = True
                await settle(self._writer, lambda: self._pause(batch), self._stopping)
            finally:
                self._unsettled = self._paused = False
        except OutcomeLostError:
            self._behind = True
            raise not_settled() from None

    def _pause(self, batch: Iterable[Accepted]) -> None:
        """Keep no caller waiting any longer, until the store answers again."""
        self._paused = True
        callers = (each.waiting for each in batch if each.waiting.answer is not None)
        self._fail(callers, not_settled())
        self._fail(self._waiting, paused())
        self._waiting.clear()

    def _decide(self, batch: Sequence[Waiting]) -> Decided:
        """Decide ``batch`` on the present state, and answer the refused commands."""
        decided = decide_batch(batch, self.view.state, self._context())
        for refused in decided.refused:
            self._fail([refused.waiting], refused.error)
        return decided

    async def _make_durable(self, decided: Decided) -> None:
        command, state = decided.accepted[0].waiting.command, decided.state
        if not goes_alone(command):
            await self._writer.public_log.put_objects(objects_of(decided.events))
            await self._writer.append(decided.payloads)
            return
        assert isinstance(state, Running)  # noqa: S101 a manifest was just set
        after = UpdateLog(decided.events, before=self._log.view())
        leaves = leaves_of(decided.events)
        if isinstance(command, SetManifest):
            base = encode_events(base_events(state, after.view(), Filed(Frontier(), leaves)))
            await self._writer.establish(command, base, objects_of(decided.events))
        else:
            await self._writer.public_log.put_objects(objects_of(decided.events))
            dek = new_dek(command)
            notes = await asyncio.to_thread(self._switches, state, dek)
            view = after.view()
            await self._writer.begin_epoch(state, view, dek=dek, notes=notes, leaves=leaves)

    def _switches(self, state: Running, dek: Secret | None) -> tuple[Note, ...]:
        """Return what tells the other replicas of ``dek``, the key of the next epoch."""
        after, shared = self._writer.position, self._shared
        if dek is None or after is None or shared is None:
            return ()
        return shared.notes_of(dek, state, store_id=self._writer.store_id, after=after)

    def _publish(self, state: State, events: Sequence[Event]) -> None:
        self._writer.public_log.extend(leaves_of(events))
        for moved in self._log.extend(events):
            log.warning("a workload runs on another platform than before", **moved._asdict())
        self.view = View(state, self._writer.position, self._log.view())
        self._published()

    async def _tend(self) -> None:
        """Compact the journal or write its head, where that is due.

        A failure that leaves the journal unchanged is logged, and tried again later.
        """
        try:
            if self._writer.is_too_long():
                await self._settled(self._compact())
                self._publish(self.view.state, ())  # others show the new epoch as well
            else:
                await self._writer.keep_head()
        except (UnavailableError, UnsettledError) as error:
            self._writer.put_off(error)

    async def _compact(self) -> None:
        # In a turn: a base takes its time, and others would always be first.
        await self._in_turn(lambda: self._writer.compact(self.view.state, self.view.log))

    async def _follow(self) -> None:
        """Take over what others wrote. While it cannot be read, the view stays as it is."""
        self._behind = False
        if self._writer.position is None:
            return
        try:
            await self._catch_up()
        except UnavailableError as error:
            if not self._unreadable:
                log.warning("the store cannot be read", reason=str(error))
            self._unreadable = True
        else:
            self._unreadable = False

    async def _catch_up(self) -> None:
        """Apply what another writer of the same store made durable first."""
        try:
            found = await self._writer.catch_up()
        except WrongKeyError as wrong:
            found = await self._switched(wrong)
        if isinstance(found, Replay):  # the other began an epoch: start again from its base
            payloads = found.base + found.events
            tail = LogTail()
            state, self._log = await asyncio.to_thread(rebuild, payloads, tail)
            self._writer.public_log.resume(tail.filed, tail.leaves)
            self._publish(state, ())
            self._writer.adopt(state)
        elif found.events:
            self._publish(*await applied(self.view.running, found.events))

    async def _switched(self, wrong: WrongKeyError) -> Replay:
        """Follow into an epoch with a new data key, which its writer left for this process.

        Raises ``WrongKeyError`` if there is none: then a new process has to ask for it.
        """
        state, position, shared = self.view.state, self._writer.position, self._shared
        if shared is None or position is None or not isinstance(state, Running):
            raise wrong
        store_id = self._writer.store_id
        dek = await shared.told(state, store_id=store_id, position=position)
        if dek is None:
            raise WrongKeyError(
                "another coordinator has made a new data key, and this one was not told of it",
                hint="start it again: it asks those that serve, if the manifest still admits it",
            ) from wrong
        return await self._writer.switch(dek)

    def _context(self) -> Context:
        return Context(now=self.now(), at=at(self._writer.position), **self._process._asdict())

    def _fail(self, batch: Iterable[Waiting], error: Exception) -> None:
        for waiting in batch:
            self.counts.failed(error)
            if waiting.answer is None:
                self._put_off()
            elif not waiting.answer.done():
                waiting.answer.set_exception(error)

    def _put_off(self) -> None:
        """Write the audit buffer later; if the engine stops, its content is lost."""
        self._audit_buffer.put_off(asyncio.get_running_loop().time())
        if self._stopping.is_set() and (lost := self._audit_buffer.give_up()):
            log.error("activations were not recorded", lost=lost)

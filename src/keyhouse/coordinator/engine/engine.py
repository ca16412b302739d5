"""Run the single writer: decide queued commands, make them durable, publish, and answer.

One task runs ``Engine.run``. It decides a batch command by command on a tentative state; a refused
command fails alone. One append makes the events of the batch durable. Only then the engine
publishes the new state and answers the callers.

If the append has certainly failed, the old state remains. If the outcome is unknown, the engine
pauses until the store reveals the outcome. Reads are answered meanwhile. The cost of a change does
not depend on the size of the state, except when a new epoch begins.

Several coordinators may write to the same store. If another coordinator was first, this engine
follows its changes and decides again. After each hint of the store, the view follows their changes.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Final

from keyhouse.base.errors import BrokenError, RefusedError, UnavailableError, UnsettledError
from keyhouse.base.log import log
from keyhouse.coordinator.certificate_expiry import warn_of_expiry
from keyhouse.coordinator.core.commands import BeginLine, Command, RecordActivations, StaleError
from keyhouse.coordinator.core.context import FirstManifestRule, Process
from keyhouse.coordinator.core.events import Activated
from keyhouse.coordinator.core.evolve import evolve_all
from keyhouse.coordinator.core.policy import policy_of
from keyhouse.coordinator.core.publishing import start_events
from keyhouse.coordinator.core.state import Pending, Running, State
from keyhouse.coordinator.core.update_log import UpdateLog
from keyhouse.coordinator.engine.batch import AcceptedCommand, Decision, WaitingCommand
from keyhouse.coordinator.engine.clock import SecurityClock
from keyhouse.coordinator.engine.commits import Commits
from keyhouse.coordinator.engine.counts import EngineCounts, NotStored
from keyhouse.coordinator.engine.current import Current, View
from keyhouse.coordinator.engine.following import Following
from keyhouse.coordinator.engine.log_signing import LateLog, signed_checkpoint
from keyhouse.coordinator.engine.records import encode_events
from keyhouse.coordinator.engine.recover import Recovery, recover
from keyhouse.coordinator.engine.root_line import line_objects, start_line_events
from keyhouse.coordinator.engine.shared import Held, Shared
from keyhouse.coordinator.engine.start_quotes import MakeQuote, StartQuotes
from keyhouse.coordinator.engine.work_queue import WaitingRecovery, WorkQueue
from keyhouse.coordinator.engine.writer import JournalWriter
from keyhouse.coordinator.lease import Lease
from keyhouse.coordinator.origin.checks import Origin
from keyhouse.journal import LogStore, Position, RolledBackError, Weight
from keyhouse.transparency.tree import Frontier


class Engine:
    """Own the state, the journal's writer and the update log. Readers use ``view``."""

    def __init__(
        self,
        *,
        writer: JournalWriter,
        clock: SecurityClock,
        process: Process,
        state: State,
        update_log: UpdateLog | None = None,
        shared: Shared | None = None,
        make_quote: MakeQuote | None = None,
        origin: Origin | None = None,
    ) -> None:
        self._writer = writer
        self._origin = origin
        if origin is not None:
            writer.mark_by(origin.mark)
        self._quotes = StartQuotes(make_quote)
        self._process = process
        self._logged_manifest = b""
        self._not_stored = NotStored()
        self.counts: Final = EngineCounts()
        self._queue = WorkQueue(self.counts)
        self._current = Current(writer, clock, process, state, update_log or UpdateLog())
        self._following = Following(self._current, writer, shared, origin)
        self._commits = Commits(
            self._current,
            writer,
            self._following,
            self._queue,
            self.counts,
            self._quotes,
            origin,
            shares_store=process.shares_store,
        )
        writer.watch(self.look)

    @property
    def view(self) -> View:
        """Return the newest durable state, for readers."""
        return self._current.view

    def now(self) -> int:
        """Return the security time: microseconds since 1970, never before a journalled time."""
        return self._current.now()

    def require_clock(self) -> None:
        """Refuse to begin a deployment while the host's clock is wrong.

        Raises ``UnavailableError`` if the clock is more than a year ahead of the known time.
        """
        if self.clock.is_ahead():
            raise UnavailableError(
                "the clock of this machine is more than a year ahead of what is known",
                hint="set the clock; if it is right, start with --confirm-clock",
            )

    @property
    def clock(self) -> SecurityClock:
        """Return the clock of this process."""
        return self._current.clock

    @property
    def lease(self) -> Lease:
        """Return the lease: how long this process may serve on the word of the witnesses."""
        return self._current.lease

    def show_again(self) -> None:
        """Publish the same state again, with new cosignatures of witnesses."""
        self._current.publish(self.view.state, ())

    @property
    def instance(self) -> bytes:
        """Return the 16 random bytes that identify this process."""
        return self._process.instance

    @property
    def is_broken(self) -> bool:
        """Return True if the durable state is unknown: nothing is written until a restart."""
        return self._queue.broken is not None

    @property
    def is_settled(self) -> bool:
        """Return True if the store answers, as far as known, and no outcome is unknown."""
        return not (self._commits.unsettled or self._following.unreadable or self._queue.broken)

    @property
    def waiting(self) -> int:
        """Return the number of commands that wait for the next batch."""
        return self._queue.waiting

    @property
    def weight(self) -> Weight | None:
        """Return the size of the journal; None without a journal."""
        return self._writer.weight

    @property
    def held(self) -> Held | None:
        """Return the data for a hand-off to another replica.

        None without a running state, and while the state changes.
        """
        state = self.view.state
        if self._queue.broken or not isinstance(state, Running):
            return None
        return self._writer.held(self.view.position, state)

    @property
    def first_manifest(self) -> FirstManifestRule:
        """Return the rule about the first manifest of a deployment."""
        return self._process.first_manifest

    @property
    def shares_store(self) -> bool:
        """Return True if several coordinators may serve the same state."""
        return self._process.shares_store

    @property
    def public_log(self) -> LogStore:
        """Return the tiles and objects of the transparency log."""
        return self._writer.public_log

    @property
    def unrecorded(self) -> int:
        """Return the number of activations in the audit buffer."""
        return self._queue.unrecorded

    def record(self, activated: Activated) -> None:
        """Put an activation without a limit into the audit buffer, for a later commit.

        Raises ``UnavailableError`` if the buffer is full or the engine stops: then the activation
        must not happen.
        """
        self._queue.record(activated)

    async def submit(self, command: Command) -> View:
        """Return the view with the change, after it is durable. Raises as ``decision``."""
        return (await self._queue.add(command)).view

    def decision(self, command: Command) -> "asyncio.Future[Decision]":
        """Return the result of ``command``, set once the change is durable.

        A cancelled caller stops waiting; the change still happens.

        Raises, now or later:
            Refused, Stale: as in ``decide``; nothing changed.
            UnavailableError: too many commands wait, the disk is full, the store does not answer,
                or the coordinator stops; nothing changed.
            UnsettledError: the change may have happened, or may still happen.
            BrokenError: the outcome is unknown until a restart.
        """
        return self._queue.add(command)

    async def recover(self, recovery: Recovery) -> View:
        """Return the view of the recovered state, once it is durable and sealed.

        Raises:
            Refused, Unavailable: the coordinator stays in recovery mode, with nothing changed.
            BrokenError: the durable state is unknown until a restart.
        """
        return await self._queue.add_recovery(recovery)

    async def announce(self, forgeable: Pending | None = None) -> None:
        """Commit the ``Started`` record of this process, before anything is served.

        ``forgeable`` is a pending update whose votes nothing vouches for; it ends with this start.
        """

        async def append() -> None:
            state, context, begun = self.view.running, self._current.context(), None
            old = state.public_log
            if context.begins_log(old):
                old = None
                late = LateLog.of(state, self.view.log, context.now)
                begun = late.begun
                proofs = await line_objects(state, self._writer)
                self._writer.public_log = await self._writer.new_log(
                    begun.verifier, [*late.objects, *proofs], on_disk=self._writer.on_disk
                )
            frontier = Frontier() if old is None else old.frontier
            drops = forgeable is not None and state.pending == forgeable
            if drops:
                log.warning("the pending update ended with this start: propose it again")
            started = await self._quotes.with_stored_quote(
                start_events(state, context, begun, drops_pending=drops),
                frontier,
                state.keys.root_cert,
                self._writer.public_log,
            )
            started += await start_line_events(self._origin, state, context, begun)
            await self._writer.append(list(encode_events(started)))
            self._current.publish(evolve_all(state, started), started)

        if self._writer.position is not None:
            await self._following.show()
            await self._following.in_turn(append)

    async def run(self) -> None:
        """Write until ``stop`` was called and all earlier commands are answered.

        Raises ``BrokenError`` if the durable state is unknown; a restart reads it.
        """
        queue = self._queue
        try:
            await self._log_manifest()
            while await queue.has_work():
                # Other writers may write all the time. So the engine follows them once, and then
                # works.
                if queue.behind:
                    queue.behind = False
                    await self._following.follow()
                if recovery := queue.take_recovery():
                    await self._recover(recovery)
                elif batch := queue.take():
                    await self._serve(batch)
                await self._log_manifest()
                if self._writer.is_too_long():
                    await self._maintain(self._compact)
                elif self._writer.is_head_due():
                    await self._maintain(self._writer.keep_head)
        except BrokenError as error:
            queue.broken = error
            raise
        finally:
            queue.close()

    async def begin_line(self) -> None:
        """Begin the line of an adopted root, after no older version shares the store.

        If the manifest has just changed, nothing happens: the caller repeats the call. Raises
        ``UnavailableError``.
        """
        state, origin = self.view.state, self._origin
        if origin is None or not isinstance(state, Running) or not origin.needs_adoption(state):
            return
        if await self._following.all_read_lines(state):
            items = await origin.adoption_entries(state, self.now())
            with suppress(StaleError):
                await self.submit(BeginLine(state.manifest, items))

    def stop(self) -> None:
        """Accept no more commands; ``run`` ends after the waiting commands are answered."""
        self._queue.stop()

    def look(self) -> None:
        """Follow the changes in a shared store soon."""
        self._queue.look()

    def on_view(self, published: Callable[[], None]) -> None:
        """Call ``published`` after each new view."""
        self._current.on_view(published)

    async def head(self) -> Position | None:
        """Return the end of the store, which may be ahead of the view; None without a journal.

        Raises ``UnavailableError`` if the store does not answer.
        """
        return await self._writer.head()

    def place_at(self, sequence: int) -> Position | None:
        """Return the place after the record ``sequence``; None if it is ahead or unknown."""
        return self._writer.place_at(sequence)

    async def close(self) -> None:
        """Close the journal, after ``run`` has ended."""
        state = self.view.state
        log = state.public_log if isinstance(state, Running) else None
        checkpoint = signed_checkpoint(log) if log is not None else b""
        rolled_back = isinstance(self._queue.broken, RolledBackError)
        await self._writer.close(
            clean=not self.is_broken, rolled_back=rolled_back, checkpoint=checkpoint
        )

    async def _log_manifest(self) -> None:
        """Log the limits of protection and the expiry of certificates, once per manifest."""
        state = self.view.state
        if isinstance(state, Running) and state.manifest != self._logged_manifest:
            self._logged_manifest = state.manifest
            if note := policy_of(state.manifest).manifest.config.rollback_note:
                log.info(note)
            await asyncio.to_thread(warn_of_expiry, state, self.now())

    async def _recover(self, waiting: WaitingRecovery) -> None:
        """Recover, and answer ``waiting`` in any case.

        A recovery opens a journal, so it has no batch.
        """
        try:
            found = await recover(
                self._writer,
                self.view.state,
                waiting.recovery,
                self._current.context(),
                self.clock,
                self._quotes,
                self._origin,
            )
        except (RefusedError, UnavailableError) as error:
            waiting.fail(error)
        except BaseException as error:
            waiting.fail(_as_broken(error))
            raise
        else:
            self._current.clock = found.clock
            found.serve()
            self._current.replace(found.state, found.log)
            await self._following.show()
            if not waiting.answer.done():
                waiting.answer.set_result(self.view)

    async def _serve(self, batch: list[WaitingCommand]) -> None:
        """Execute ``batch``, and answer each of its commands in any case."""
        try:
            self._answer(await self._commits.write(batch))
            self._not_stored.ended()
        except (UnavailableError, UnsettledError) as error:
            self._not_stored.add(error, len(batch))
            self._queue.fail(batch, error)
        # Only the platform can cause this refusal so late. Nothing was written.
        except RefusedError as error:
            self._queue.fail(batch, error)
        except BaseException as error:
            self._queue.fail(batch, _as_broken(error))
            raise

    def _answer(self, accepted: Iterable[AcceptedCommand]) -> None:
        view = self.view
        for each in accepted:
            command, answer = each.waiting.command, each.waiting.answer
            if answer is not None and not answer.done():
                answer.set_result(Decision(view, each.before))
            elif answer is None and isinstance(command, RecordActivations):
                self._queue.recorded(command)

    async def _maintain(self, work: Callable[[], Awaitable[None]]) -> None:
        """Run a maintenance task of the journal.

        A failure that leaves the journal unchanged is logged, and the task is repeated later.
        """
        try:
            await work()
        except (UnavailableError, UnsettledError) as error:
            self._writer.postpone(error)

    async def _compact(self) -> None:
        def compact() -> Awaitable[None]:
            return self._writer.compact(self.view.state, self.view.log)

        # A base takes long to write, so without a turn other writers would always be first.
        await self._commits.settled(self._following.in_turn(compact))
        self._current.publish(self.view.state, ())  # every replica shows the new epoch


def _as_broken(error: BaseException) -> BrokenError:
    return error if isinstance(error, BrokenError) else BrokenError("the coordinator failed")

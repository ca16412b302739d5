"""Run the single writer: decide queued commands, make them durable, publish, and answer.

One task runs ``Engine.run``. It decides a batch command by command on a tentative state; a refused
command fails alone. One append makes the events of the batch durable. Only then the engine
publishes the new state and answers the callers.

If the append has certainly failed, the old state remains. If the outcome is unknown, the engine
pauses until the store reveals the outcome. Reads are answered meanwhile. The cost of a change does
not depend on the size of the state, except when a new epoch begins.

Several coordinators may write to the same store. If another coordinator was first, this engine
follows the changes of that coordinator and decides again. After each notification from the store,
the engine also follows new changes, and publishes them.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, TypeVar

from keyhouse.base.errors import (
    BrokenError,
    ConflictError,
    KeyhouseError,
    RefusedError,
    UnavailableError,
    UnsettledError,
)
from keyhouse.base.log import log
from keyhouse.coordinator.certificate_expiry import warn_of_expiry
from keyhouse.coordinator.core.commands import BeginLine, Command, ShareFlush, StaleError
from keyhouse.coordinator.core.context import Process
from keyhouse.coordinator.core.events import LINE_LEVEL, LIVING_LEVEL
from keyhouse.coordinator.core.evolve import evolve_all
from keyhouse.coordinator.core.policy import policy_of
from keyhouse.coordinator.core.publishing import start_events
from keyhouse.coordinator.core.state import PendingUpdate, Running, State
from keyhouse.coordinator.core.update_log import UpdateLog
from keyhouse.coordinator.engine.clock import SecurityClock
from keyhouse.coordinator.engine.commits import Commits
from keyhouse.coordinator.engine.current import Current, View
from keyhouse.coordinator.engine.following import Following
from keyhouse.coordinator.engine.log_signing import LateLog, signed_checkpoint
from keyhouse.coordinator.engine.records import encode_events
from keyhouse.coordinator.engine.recover import recover
from keyhouse.coordinator.engine.shared import Held, Shared
from keyhouse.coordinator.engine.start_proofs import (
    MakeQuote,
    StartQuotes,
    line_objects,
    start_line_events,
)
from keyhouse.coordinator.engine.unflushed import Unflushed
from keyhouse.coordinator.engine.work_queue import WaitingCommand, WaitingRecovery, WorkQueue
from keyhouse.coordinator.engine.writer import JournalWriter
from keyhouse.coordinator.origin.checks import Origin
from keyhouse.journal import RolledBackError
from keyhouse.transparency.tree import Frontier

T = TypeVar("T")

_MOST_REASONS: Final = 8  # the most reasons in the log, chosen: they fit on one line

ATTEMPTS: Final = 3
"""Attempts to prepare a change before the refusal.

After three conflicts in a row, the state changes faster than this change can be prepared.
"""


class Engine:
    """Runs the single writer of a state. Readers use ``view``.

    Callers use the parts: ``queue`` accepts changes, ``current`` has the published state and the
    time, ``lease`` has the cosignatures of witnesses, ``writer`` has the journal.
    """

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
        self._origin = origin
        if origin is not None:
            writer.mark_of = origin.mark
        self._quotes = StartQuotes(make_quote)
        self._logged_manifest = b""
        self._not_stored = _NotStored()
        self.process: Final = process
        self.writer: Final = writer
        self.queue: Final = WorkQueue()
        self.current: Final = Current(writer, clock, process, state, update_log or UpdateLog())
        self.lease: Final = self.current.lease
        self._unflushed = Unflushed(self.current, writer, self.queue)
        self._following = Following(self.current, writer, shared, origin, self._unflushed)
        self._commits = Commits(
            self.current,
            writer,
            self._following,
            self.queue,
            self._quotes,
            origin,
            self._unflushed,
            shares_store=process.shares_store,
        )
        writer.changed = self.queue.request_follow

    @property
    def view(self) -> View:
        """Return the newest durable state, for readers."""
        return self.current.view

    @property
    def is_settled(self) -> bool:
        """Return True if the store answers, as far as known, and no outcome is unknown."""
        unknown = self._commits.unsettled or self._unflushed.failing
        return not (unknown or self._following.unreadable or self.queue.broken)

    @property
    def held(self) -> Held | None:
        """Return the data for a hand-off to another replica.

        None if no manifest is in force, or while the state changes.
        """
        state = self.view.state
        if self.queue.broken or not isinstance(state, Running):
            return None
        return self.writer.held(self.view.position, state)

    async def submit(self, command: Command) -> View:
        """Return the view with the change, after it is durable. Raises as ``WorkQueue.add``."""
        return (await self.queue.add(command)).view

    def request_newest(self) -> None:
        """Follow other writers, and publish their changes soon, because a reader waits."""
        self._unflushed.hurry()
        self.queue.request_follow()

    async def announce(self, forgeable: PendingUpdate | None = None) -> None:
        """Commit the ``Started`` record of this process, before anything is served.

        ``forgeable``: a pending update with acknowledgements that neither a seal nor a replica
        proves. Such an update ends with this start. None: there is no such update.
        """

        async def append() -> None:
            self.lease.begin()
            state, context, begun = self.view.running, self.current.context(), None
            old = state.public_log
            if context.begins_log(old):
                old = None
                late = LateLog.of(state, self.view.log, context.now)
                begun = late.begun
                proofs = await line_objects(state, self.writer)
                self.writer.public_log = await self.writer.new_log(
                    begun.verifier, [*late.objects, *proofs], on_disk=self.writer.on_disk
                )
            frontier = Frontier() if old is None else old.frontier
            drops = forgeable is not None and state.pending == forgeable
            if drops:
                log.warning("the pending update ended with this start: propose it again")
            started = await self._quotes.with_stored_quote(
                start_events(state, context, begun, drops_pending=drops),
                frontier,
                state.keys.root_cert,
                self.writer.public_log,
            )
            started += await start_line_events(self._origin, state, context, begun)
            await self.writer.present.append(list(encode_events(started)))
            self.current.publish(evolve_all(state, started), started)

        if self.writer.position is not None:
            await self._following.publish_quote()
            await self._following.in_turn(append)

    async def run(self) -> None:
        """Write until ``WorkQueue.stop`` was called and all earlier commands are answered.

        Raises ``BrokenError`` if the durable state is unknown; a restart reads it.
        """
        queue = self.queue
        try:
            await self._log_manifest()
            while await self._has_work():
                # Other writers may write all the time. So the engine follows them once, and then
                # works.
                if queue.behind:
                    queue.behind = False
                    await self._following.follow()
                if recovery := queue.pop_recovery():
                    await self._recover(recovery)
                elif batch := queue.pop_commands():
                    await self._serve(batch)
                await self._log_manifest()
                if self.writer.is_too_long():
                    await self._maintain(self._compact)
                elif self.writer.is_head_due():
                    await self._maintain(self.writer.seal_head)
        except BrokenError as error:
            queue.broken = error
            raise
        finally:
            self._unflushed.close()
            queue.close()

    async def _has_work(self) -> bool:
        """Wait for work. Return False if the engine stops without further work.

        Before the return of False, wait until all changes are durable. If the store does not
        answer, return False without this wait.
        """
        while not await self.queue.has_work():
            if not self._unflushed.waiting and not self._unflushed.has_lost:
                return False
            try:
                await self._following.drained()
            except UnavailableError:
                return False
        return True

    async def begin_line(self) -> None:
        """Begin the line of an adopted root, if every process on the store can read a line.

        Otherwise, or if the manifest has just changed, do nothing. The caller then repeats the
        call later. Raises ``UnavailableError``.
        """
        state, origin = self.view.state, self._origin
        if origin is None or not isinstance(state, Running) or not origin.needs_adoption(state):
            return
        if await self._following.all_read(state, LINE_LEVEL):
            items = await origin.adoption_entries(state, self.current.now())
            with suppress(StaleError):
                await self.submit(BeginLine(state.manifest, items))

    async def require_readers(self, manifest: bytes) -> None:
        """Verify that every process on the store can read the journal under the valid ``manifest``.

        Older versions cannot read events of ``Renewal``, ``Trust`` or a role on ``Marbles``. Raises
        ``ConflictError`` if such a version serves the store, or ``UnavailableError``.
        """
        state = self.view.state
        living = policy_of(manifest).manifest.is_living
        if not living or not isinstance(state, Running):
            return
        if not await self._following.all_read(state, LIVING_LEVEL):
            raise ConflictError(
                "a coordinator of an older version serves the same store and cannot read a manifest"
                " with Renewal, Trust or a role on Marbles",
                hint="replace all coordinators by this version; repeat the request an hour after"
                " the end of the last old coordinator",
            )

    async def share_flush(self) -> None:
        """Permit appends before their flush, if all replicas can read such records.

        Submits the command ``ShareFlush``. Without another replica, do nothing. Raises
        ``UnavailableError``.
        """
        state = self.view.state
        if not isinstance(state, Running) or state.shares_flush:
            return
        if await self._following.all_share_flushes(state):
            await self.submit(ShareFlush())
            log.info("the coordinators share flushes from now on")

    async def close(self) -> None:
        """Close the journal, after ``run`` has ended."""
        state = self.view.state
        log = state.public_log if isinstance(state, Running) else None
        checkpoint = signed_checkpoint(log) if log is not None else b""
        rolled_back = isinstance(self.queue.broken, RolledBackError)
        await self.writer.close(
            clean=self.queue.broken is None, rolled_back=rolled_back, checkpoint=checkpoint
        )

    async def _log_manifest(self) -> None:
        """Log the limits of protection and the expiry of certificates, once per manifest."""
        state = self.view.state
        if isinstance(state, Running) and state.manifest != self._logged_manifest:
            self._logged_manifest = state.manifest
            if note := policy_of(state.manifest).manifest.config.rollback_note:
                log.info(note)
            await asyncio.to_thread(warn_of_expiry, state, self.current.now())

    async def _recover(self, waiting: WaitingRecovery) -> None:
        """Recover the state, and answer the caller in ``waiting`` in any case.

        A recovery replaces the state and the journal. Commands need both for their decision, so a
        recovery is not a part of a batch.
        """
        self.lease.begin()
        try:
            found = await recover(
                self.writer,
                self.view.state,
                waiting.recovery,
                self.current.context(),
                self.current.clock,
                self._quotes,
                self._origin,
            )
        except (RefusedError, UnavailableError) as error:
            waiting.fail(error)
        except BaseException as error:
            waiting.fail(_as_broken(error))
            raise
        else:
            self.current.clock = found.clock
            found.serve()
            self.current.replace(found.state, found.log)
            await self._following.publish_quote()
            if not waiting.answer.done():
                waiting.answer.set_result(self.view)

    async def _serve(self, batch: list[WaitingCommand]) -> None:
        """Execute ``batch``, and answer each of its commands in any case."""
        try:
            await self._commits.write(batch)
            if self._not_stored.count:
                self._not_stored.ended()
        except (UnavailableError, UnsettledError) as error:
            self._not_stored.add(error, len(batch))
            self.queue.fail(batch, error)
        # Only the platform can cause this refusal so late. Nothing was written.
        except RefusedError as error:
            self.queue.fail(batch, error)
        except BaseException as error:
            self.queue.fail(batch, _as_broken(error))
            raise

    async def _maintain(self, work: Callable[[], Awaitable[None]]) -> None:
        """Run ``work``, a maintenance task of the journal.

        A failure that leaves the journal unchanged is logged, and the task is repeated later.
        """
        try:
            await work()
        except (UnavailableError, UnsettledError) as error:
            self.writer.postpone(error)

    async def _compact(self) -> None:
        before = self.writer.present.written.epoch

        async def compact() -> None:
            # A compaction is due for all replicas at once, and the first one serves all of them.
            # With a distant standby, each further one stopped all writes for 65 ms, measured.
            if self.writer.present.written.epoch == before:
                await self.writer.compact(self.view.state, self.view.log)

        # A base takes long to write, so without a turn all further writers would always be first.
        await self._commits.settled(self._following.in_turn(compact))
        self.current.publish(self.view.state, ())  # every replica shows the new epoch


class _NotStored:
    """The changes that the store has refused since the last stored change.

    The log states each reason once, and the number of refused changes when the refusals end. A full
    disk refuses every change, so a line for each change would fill the log.
    """

    def __init__(self) -> None:
        self.count = 0
        self._reasons: set[str] = set()

    def add(self, error: KeyhouseError, changes: int) -> None:
        """Count ``changes`` refused with ``error``; log a new reason."""
        self.count += changes
        reason = str(error)
        if reason not in self._reasons and len(self._reasons) < _MOST_REASONS:
            self._reasons.add(reason)
            log.warning("a change could not be stored", reason=reason)

    def ended(self) -> None:
        """Log that the store accepts changes again, and reset the count of failures."""
        log.info("changes are stored again", not_stored=self.count)
        self.count = 0
        self._reasons.clear()


def _as_broken(error: BaseException) -> BrokenError:
    return (
        error
        if isinstance(error, BrokenError)
        else BrokenError(
            "the coordinator has failed with an unexpected error",
            hint="restart the coordinator, and report the error in its log as a defect",
        )
    )


async def until_current(change: Callable[[], Awaitable[T]], *, too_fast: str) -> T:
    """Return the result of ``change``, a function that prepares a command and submits it.

    Calls ``change`` again after ``StaleError``. Raises ``UnavailableError`` with the message
    ``too_fast`` after ``ATTEMPTS`` calls. All remaining errors of ``change`` are raised unchanged.
    """
    for _ in range(ATTEMPTS):
        try:
            return await change()
        except StaleError:
            continue
    raise UnavailableError(too_fast, hint="retry")

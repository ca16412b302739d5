"""Changes of one batch: decided, made durable, then published.

If the append certainly failed, the old state remains. If its outcome is unknown, nothing else is
written until the store tells it. Changes that were outrun are decided again on what others wrote.
"""

import asyncio
from collections.abc import Awaitable, Iterable, Sequence
from contextlib import suppress
from time import perf_counter
from typing import Final

from msgspec.structs import replace

from keyhouse.base.errors import UnsettledError
from keyhouse.base.log import log
from keyhouse.coordinator.core.base import Filed, base_events
from keyhouse.coordinator.core.commands import SetManifest
from keyhouse.coordinator.core.events import LineExtended, ManifestSet, ManifestUpdated
from keyhouse.coordinator.core.evolve import evolve_all
from keyhouse.coordinator.core.publishing import leaves_of
from keyhouse.coordinator.core.state import Running
from keyhouse.coordinator.core.update_log import UpdateLog
from keyhouse.coordinator.engine.batch import Accepted, Decided, Waiting, decide_batch, new_dek
from keyhouse.coordinator.engine.counts import EngineCounts
from keyhouse.coordinator.engine.current import Current
from keyhouse.coordinator.engine.following import Following
from keyhouse.coordinator.engine.intake import Intake
from keyhouse.coordinator.engine.records import encode_events
from keyhouse.coordinator.engine.start_quotes import StartQuotes
from keyhouse.coordinator.engine.writer import JournalWriter
from keyhouse.coordinator.origin.checks import Origin
from keyhouse.journal import (
    NotDurableError,
    OutcomeLostError,
    OutcomeUnknownError,
    StoreConflictError,
)
from keyhouse.transparency.tree import Frontier

TELL_AFTER: Final = 10.0
"""Seconds after which the callers of a write are told that its outcome is not known."""

_EFFECTIVE: Final = (ManifestSet, ManifestUpdated)
_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 0.5


class Commits:
    """Makes changes durable, and shows them then."""

    def __init__(
        self,
        current: Current,
        writer: JournalWriter,
        following: Following,
        intake: Intake,
        counts: EngineCounts,
        quotes: StartQuotes,
        origin: Origin | None,
        *,
        shares_store: bool,
    ) -> None:
        self._current = current
        self._writer = writer
        self._following = following
        self._intake = intake
        self._counts = counts
        self._quotes = quotes
        self._origin = origin
        self._shares_store = shares_store
        self.unsettled = False  # whether the outcome of a write is not known

    async def write(self, batch: Sequence[Waiting]) -> Sequence[Accepted]:
        """Return the changes of ``batch`` that are durable; the refused ones are answered."""
        decided = self._decide(batch)
        try:
            try:
                await self._commit(decided)
            except StoreConflictError:
                decided = await self._commit_in_turn(decided)
        except NotDurableError:
            # A connection was lost. The next connection proves the change undone, so the engine
            # decides it again, once, in place of an error for its client.
            if not self._shares_store or _any_answered(decided):
                raise
            decided = await self._commit_in_turn(decided)
        return decided.accepted

    async def settled(self, write: Awaitable[object], batch: Sequence[Accepted] = ()) -> None:
        """Return once ``write``, of the changes in ``batch``, has happened; raise if it has not.

        After ``TELL_AFTER`` its callers wait no longer. A write to a file has no timer: it takes
        its time from each change, and such a write ends by itself.
        """
        telling = self._tell_later(batch) if self._shares_store else None
        try:
            try:
                await write
            except OutcomeUnknownError:
                self.unsettled = True
                telling = telling or self._tell_later(batch)
                await _settle(self._writer, self._intake.stopping)
            finally:
                self.unsettled = self._intake.paused = False
                if telling is not None:
                    telling.cancel()
        except OutcomeLostError:
            self._intake.behind = True
            raise _not_settled() from None

    async def _commit(self, decided: Decided) -> None:
        """Make ``decided`` durable, then publish it. Raises ``StoreConflictError``."""
        if not decided.events:
            return
        if not decided.payloads:  # a command that begins a journal or an epoch
            decided = await self._with_line(await self._quoted(decided))
        began = perf_counter()
        alone = decided.payloads and not decided.objects  # as mostly: an append is all there is
        write = self._writer.append(decided.payloads) if alone else self._make_durable(decided)
        await self.settled(write, decided.accepted)
        self._counts.committed(len(decided.accepted), perf_counter() - began)
        self._current.publish(decided.state, decided.events)
        await self._writer.cover_votes()

    async def _quoted(self, decided: Decided) -> Decided:
        """Return ``decided`` with the quote about its start, if it begins a journal."""
        first = decided.accepted[0]
        begins = isinstance(first.waiting.command, SetManifest)
        if not begins or not isinstance(decided.state, Running):
            return decided
        root = decided.state.keys.root_cert
        quoted = await self._quotes.of(decided.events, Frontier(), root)
        return replace(
            decided,
            events=list(quoted.events),
            objects=[*decided.objects, *quoted.objects],
            state=evolve_all(first.before, quoted.events),
        )

    async def _with_line(self, decided: Decided) -> Decided:
        """Return ``decided`` with the entry of the line and its quote, if a manifest takes effect.

        Raises ``UnavailableError`` without a quote, or ``ConflictError``.
        """
        before, state = decided.accepted[0].before, decided.state
        effective = [each for each in decided.events if isinstance(each, _EFFECTIVE)]
        if self._origin is None or not effective or not isinstance(state, Running):
            return decided
        time = effective[0].time
        if isinstance(before, Running):
            made = await self._origin.updated(before, state, time)
        else:
            made = await self._origin.created(state, time)
        if not made.items:
            return decided
        extended = LineExtended(made.items)
        return replace(
            decided,
            events=[*decided.events, extended],
            objects=[*decided.objects, *made.objects],
            state=evolve_all(state, (extended,)),
        )

    async def _commit_in_turn(self, decided: Decided) -> Decided:
        """Decide again on what others wrote first, and commit that before they write more."""

        async def commit() -> None:
            nonlocal decided
            decided = self._decide([each.waiting for each in decided.accepted])
            await self._commit(decided)

        await self._following.in_turn(commit)
        return decided

    def _tell_later(self, batch: Sequence[Accepted]) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(TELL_AFTER, self._pause, batch)

    def _pause(self, batch: Iterable[Accepted]) -> None:
        """Keep no caller waiting any longer, until the store answers again."""
        callers = (each.waiting for each in batch if each.waiting.answer is not None)
        self._intake.fail(callers, _not_settled())
        self._intake.pause()

    def _decide(self, batch: Sequence[Waiting]) -> Decided:
        """Decide ``batch`` on the present state, and answer the refused commands."""
        decided = decide_batch(batch, self._current.view.state, self._current.context())
        for refused in decided.refused:
            self._intake.fail([refused.waiting], refused.error)
        return decided

    async def _make_durable(self, decided: Decided) -> None:
        command, state = decided.accepted[0].waiting.command, decided.state
        if decided.payloads:
            await self._writer.public_log.put_objects(decided.objects)
            await self._writer.append(decided.payloads)
            return
        assert isinstance(state, Running)  # noqa: S101 a manifest was just set
        after = UpdateLog(decided.events, before=self._current.view.log)
        leaves = leaves_of(decided.events)
        if isinstance(command, SetManifest):
            base = encode_events(base_events(state, after.view(), Filed(Frontier(), leaves)))
            await self._writer.establish(command, base, decided.objects, state)
            await self._following.show()
        else:
            dek = new_dek(command)
            notes = await self._following.switches(state, dek)
            await self._writer.public_log.put_objects(decided.objects)
            view = after.view()
            await self._writer.begin_epoch(state, view, dek=dek, notes=notes, leaves=leaves)


def _any_answered(decided: Decided) -> bool:
    """Return whether a caller already has an answer (an unknown outcome), or has gone."""
    answers = (each.waiting.answer for each in decided.accepted)
    return any(answer is not None and answer.done() for answer in answers)


async def _settle(writer: JournalWriter, stopping: asyncio.Event) -> None:
    """Return once the last write of ``writer`` is known to have happened, however long that takes.

    Raises as ``JournalWriter.settle``, and ``OutcomeUnknownError`` only where it is still unknown
    when the engine stops.
    """
    log.error("the store does not answer: it is not known whether the last change is durable")
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


def _not_settled() -> UnsettledError:
    """Return what callers of a write are told whose outcome is not known."""
    return UnsettledError(
        "the store does not answer: it is not known whether the change has happened",
        hint="it may still happen; read before you repeat it",
    )

"""Follow the changes that other writers have made durable in the same store.

Each engine reads the records after its position, verifies them and applies them to the state. If
another writer has begun an epoch, the engine rebuilds the state from the new base. The line of the
new state must be proven before the engine serves the new state.

If the epoch has a new data key, the writer has stored a note with this key for each member. Without
a note for this process, the process ends. A new process requests the key from serving replicas.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Final

from keyhouse.base.errors import BrokenError, RefusedError, StartAgainError, UnavailableError
from keyhouse.base.log import log
from keyhouse.base.secret import Secret
from keyhouse.coordinator.core.events import FLUSH_LEVEL
from keyhouse.coordinator.core.state import Running, State
from keyhouse.coordinator.engine.current import Current, running_of
from keyhouse.coordinator.engine.records import LogTail, applied, rebuild
from keyhouse.coordinator.engine.shared import Shared
from keyhouse.coordinator.engine.unflushed import Unflushed, Written
from keyhouse.coordinator.engine.work_queue import AcceptedCommand
from keyhouse.coordinator.engine.writer import JournalWriter
from keyhouse.coordinator.origin.checks import Origin
from keyhouse.journal import (
    Continuation,
    OutcomeUnknownError,
    Replay,
    StoreConflictError,
    StoreUnreadableError,
    TailLostError,
    WrongKeyError,
)
from keyhouse.journal.store.protocol import Note

TURNS: Final = 256
"""The most attempts to write while another writer is always first."""

LONGEST: Final = 10.0
"""The most seconds of these attempts: each attempt of a distant writer takes long."""

_FOLLOW_EVERY: Final = 0.02
"""Seconds between two reads of new changes while the engine waits for a turn."""

_PAUSES: Final = 4
"""The pause between two such reads, as a multiple of the last read's duration.

A read that is under way when the turn begins must end first. At a distance of 50 ms, this takes up
to 100 ms of the 250 ms of a turn, and the write then needs 200 ms.
"""

_LONGEST_PAUSE: Final = 0.01
"""The most seconds between two attempts. The first attempts have no pause."""

_AT_ONCE: Final = 4  # attempts without a pause

CROWDED_FOR: Final = 1.0
"""Seconds after a change of another writer in which appends come before their flush.

A writer that is alone appends with the flush: that is one round trip less.
"""

_FLUSHES: Final = 8  # attempts before the caller learns that the store does not answer


class Following:
    """Keeps the view at the end of the store, and exchanges new data keys between replicas."""

    def __init__(
        self,
        current: Current,
        writer: JournalWriter,
        shared: Shared | None,
        origin: Origin | None,
        unflushed: Unflushed,
    ) -> None:
        self._current = current
        self._writer = writer
        self._shared = shared
        self._origin = origin
        self._unflushed = unflushed
        self._crowded_until = 0.0
        self.unreadable = False  # True: the last read of the store failed
        self._follow_took = 0.0  # seconds

    async def follow(self) -> None:
        """Apply new changes in the store. If the store is unreadable, the view does not change."""
        self._unflushed.require_sound()
        if self._writer.position is None:
            return
        try:
            await self._catch_up()
        except UnavailableError as error:
            if not self.unreadable:
                log.warning("the store cannot be read", reason=str(error))
            self.unreadable = True
        else:
            self.unreadable = False

    @property
    def is_crowded(self) -> bool:
        """Return True if another writer has written in the last second (``CROWDED_FOR``)."""
        return asyncio.get_running_loop().time() < self._crowded_until

    async def drained(self) -> None:
        """Return after all changes read or written so far are durable and published.

        Raises ``UnavailableError`` if that is not possible now.
        """
        for _ in range(_FLUSHES):
            if not self._unflushed.waiting and not self._unflushed.has_lost:
                return
            try:
                await self._unflushed.flush()
            except OutcomeUnknownError:
                await self._catch_up()
            else:
                if self._unflushed.has_lost:
                    await self._catch_up()
        raise StoreUnreadableError(
            f"the database has not confirmed the newest changes after {_FLUSHES} attempts",
            hint="read the log of the database server: the server may restart, or wait for a"
            " standby",
        )

    async def in_turn(self, write: Callable[[], Awaitable[None]], *, early: bool = False) -> None:
        """Wait for a turn, follow all changes, and call ``write``.

        In a turn, probably no other process writes.

        Without ``early``, all earlier records are durable before the call of ``write``. Raises
        ``StoreConflictError`` if another writer is always first. Then nothing was written.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + LONGEST
        for attempt in range(TURNS):
            if loop.time() > end:
                break
            # The pause is outside of a turn, so no writer waits for it.
            if attempt >= _AT_ONCE:
                await asyncio.sleep(min(0.001 * 2.0 ** (attempt - _AT_ONCE), _LONGEST_PAUSE))
            with suppress(StoreConflictError):
                async with self._turn():
                    await self._catch_up()
                    if not early:
                        await self.drained()
                    await write()
                    return
        raise StoreConflictError(
            "the change was not stored: at each attempt, another coordinator wrote first",
            hint="try again later",
        )

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """Wait for a turn of the store (``Store.turn``), and follow new changes during the wait."""
        loop, turn = asyncio.get_running_loop(), self._writer.present.store.turn()
        entering = asyncio.ensure_future(turn.__aenter__())
        try:
            while not (await asyncio.wait([entering], timeout=self._pause()))[0]:
                began = loop.time()
                await self.follow()
                self._follow_took = loop.time() - began
        except BaseException:
            entering.cancel()
            raise
        await entering
        try:
            yield
        finally:
            await turn.__aexit__(None, None, None)

    def _pause(self) -> float:
        """Return the seconds between two reads of the store during the wait for a turn."""
        return max(_FOLLOW_EVERY, _PAUSES * self._follow_took)

    async def publish_quote(self) -> None:
        """Store a quote of this process: without the quote, replicas send no new data key."""
        if self._shared is None:
            return
        try:
            await self._shared.publish_quote(self._writer.present.store_id)
        except UnavailableError as error:
            log.warning("the quote for other coordinators was not stored", reason=str(error))

    async def all_read(self, state: Running, level: int) -> bool:
        """Return whether every process on the store can read events of the event level ``level``.

        Raises ``UnavailableError``.
        """
        lowest = await self._lowest_level(state)
        return lowest is None or lowest >= level

    async def all_share_flushes(self, state: Running) -> bool:
        """Return whether replicas share the store, and all replicas can read early appends.

        An early append is visible before its flush. A replica of an older version would show the
        effects without a flush. False without another replica. Raises ``UnavailableError``.
        """
        lowest = await self._lowest_level(state)
        return lowest is not None and lowest >= FLUSH_LEVEL

    async def _lowest_level(self, state: Running) -> int | None:
        """Return the lowest event level of all other processes on the store; None without any."""
        if self._shared is None:
            return None
        return await self._shared.lowest_level(state, store_id=self._writer.present.store_id)

    async def switches(self, state: Running, dek: Secret) -> tuple[Note, ...]:
        """Return the notes with ``dek``, the data key of the next epoch, for all other replicas.

        ``state``: the state of that epoch. Raises ``RefusedError`` if this process must not make
        that key, or ``UnavailableError``.
        """
        after, shared = self._writer.position, self._shared
        if after is None or shared is None:
            return ()
        return await shared.notes_of(
            dek, state, store_id=self._writer.present.store_id, after=after
        )

    async def _catch_up(self) -> None:
        """Read the new records of all writers, verify them, and apply their changes."""
        found = await self._following_records()
        accepted: list[AcceptedCommand] = []
        if self._unflushed.has_lost:
            is_connected = isinstance(found, Continuation)
            accepted = self._unflushed.decide_lost(is_connected=is_connected)
        # Another writer began an epoch, so the state begins again with the base of the epoch.
        if isinstance(found, Replay):
            payloads = found.base + found.events
            tail = LogTail()
            state, update_log = await asyncio.to_thread(rebuild, payloads, tail)
            await self._require_continued(state)
            await self._writer.public_log.resume(tail.filed, tail.leaves)
            self._current.replace(state, update_log)
            self._writer.adopt(state)
            self._mark_crowded()
        elif found.events:
            after, events = await applied(running_of(self._current.state), found.events)
            await self._require_continued(after)
            # Without the shared flush, each visible record is durable.
            if not running_of(after).shares_flush:
                self._writer.present.assume_durable()
            place = self._writer.written
            assert place is not None  # noqa: S101 - the records have a place
            began = asyncio.get_running_loop().time()
            self._unflushed.add(Written(place, after, events, accepted, [], began))
            self._mark_crowded()

    async def _following_records(self) -> Replay | Continuation:
        """Return the new records in the store. Errors as for ``Journal.catch_up``."""
        while True:
            try:
                found = await self._writer.present.catch_up()
            except TailLostError:
                self._unflushed.returned()
                continue
            except WrongKeyError as wrong:
                self._unflushed.confirm()
                found = await self._switched(wrong)
            self._unflushed.confirm()  # the read may have shown that everything is durable
            return found

    def _mark_crowded(self) -> None:
        until = asyncio.get_running_loop().time() + CROWDED_FOR
        self._crowded_until = max(self._crowded_until, until)

    async def _require_continued(self, state: State) -> None:
        """Raise unless the line of ``state``, written by another coordinator, is proven.

        The journal has already moved to the new records, so this process cannot continue with the
        former state. It ends, and a new process checks everything from the beginning.
        """
        if self._origin is None or not isinstance(state, Running):
            return
        before = running_of(self._current.state)
        try:
            await self._origin.require_continued(
                before, state, partial(self._writer.read_object, state)
            )
        except RefusedError as refused:
            raise BrokenError(refused.message, hint=refused.hint) from None
        except UnavailableError as unavailable:
            raise StartAgainError(
                f"a change of another coordinator cannot be verified: {unavailable.message}",
                hint=unavailable.hint or "restart this coordinator",
            ) from None

    async def _switched(self, wrong: WrongKeyError) -> Replay:
        """Return the records of an epoch with a new data key, from a note for this process.

        Without a note, raises ``StartAgainError``: a new process has to request the key. This
        process cannot request the key, because its manifest is no longer in force. Raises
        ``wrong``, the error of the read, if the store is not shared.
        """
        state, position, shared = self._current.view.state, self._writer.position, self._shared
        if shared is None or position is None or not isinstance(state, Running):
            raise wrong
        store_id = self._writer.present.store_id
        dek = await shared.next_data_key(state, store_id=store_id, position=position)
        if dek is None:
            raise StartAgainError(
                "another coordinator has made a new data key, without a copy for this coordinator",
                hint="restart this coordinator: the new process requests the key from a replica",
            ) from wrong
        return await self._writer.present.switch(dek)

"""Takes over what other writers of the same store have made durable."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Final

from keyhouse.base.errors import BrokenError, RefusedError, StartAgainError, UnavailableError
from keyhouse.base.log import log
from keyhouse.base.secret import Secret
from keyhouse.coordinator.core.state import Running, State
from keyhouse.coordinator.engine.current import Current
from keyhouse.coordinator.engine.records import LogTail, applied, rebuild
from keyhouse.coordinator.engine.shared import Shared
from keyhouse.coordinator.engine.writer import JournalWriter
from keyhouse.coordinator.origin.checks import Origin
from keyhouse.journal import Replay, StoreConflictError, WrongKeyError
from keyhouse.journal.store.protocol import Note

TURNS: Final = 256
"""How often the engine tries to write where others were first; then it gives up."""

LONGEST: Final = 10.0
"""Seconds for which it tries that: a distant writer needs long for each attempt."""

_FOLLOW_EVERY: Final = 0.02
"""Seconds between two looks at what others write, while the engine waits for its turn."""

_PAUSES: Final = 4
"""Lengths of a look until the next one, at least, while the engine waits for its turn.

A look that is under way when the turn begins must end first. At 50 ms of distance that takes up to
100 ms of the 250 ms that a turn has, and the write then needs 200 ms.
"""

_LONGEST_PAUSE: Final = 0.01
"""Seconds between two attempts at most; the first follow each other without a pause."""

_AT_ONCE: Final = 4  # attempts


class Following:
    """Keeps the view with the store, and tells others of a new data key and is told of theirs."""

    def __init__(
        self,
        current: Current,
        writer: JournalWriter,
        shared: Shared | None,
        origin: Origin | None,
    ) -> None:
        self._current = current
        self._writer = writer
        self._shared = shared
        self._origin = origin
        self.unreadable = False  # whether the store could not be read the last time
        self._look_took = 0.0  # seconds

    async def follow(self) -> None:
        """Take over what others wrote. While it cannot be read, the view stays as it is."""
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

    async def in_turn(self, write: Callable[[], Awaitable[None]]) -> None:
        """Catch up and ``write``, while other writers most likely do not.

        Raises ``StoreConflictError`` if others are always first; nothing was written.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + LONGEST
        for attempt in range(TURNS):
            if loop.time() > end:
                break
            if attempt >= _AT_ONCE:  # without a turn: it may be the database that keeps it
                await asyncio.sleep(min(0.001 * 2.0 ** (attempt - _AT_ONCE), _LONGEST_PAUSE))
            with suppress(StoreConflictError):
                async with self._turn():
                    await self._catch_up()
                    await write()
                    return
        raise StoreConflictError("other coordinators write first", hint="try again later")

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """Wait for a turn, and follow meanwhile: readers must not wait for a writer's turn."""
        loop, turn = asyncio.get_running_loop(), self._writer.turn()
        entering = asyncio.ensure_future(turn.__aenter__())
        try:
            while not (await asyncio.wait([entering], timeout=self._pause()))[0]:
                began = loop.time()
                await self.follow()
                self._look_took = loop.time() - began
        except BaseException:
            entering.cancel()
            raise
        await entering
        try:
            yield
        finally:
            await turn.__aexit__(None, None, None)

    def _pause(self) -> float:
        """Return how many seconds to wait for the turn before the next look."""
        return max(_FOLLOW_EVERY, _PAUSES * self._look_took)

    async def show(self) -> None:
        """Prove to other replicas what this one is. Without that they do not tell it of a key."""
        if self._shared is None:
            return
        try:
            await self._shared.show(self._writer.store_id)
        except UnavailableError as error:
            log.warning("other coordinators cannot be shown a quote", reason=str(error))

    async def all_read_lines(self, state: Running) -> bool:
        """Tell whether no other process on the store would stop at the line of a root.

        Raises ``UnavailableError``.
        """
        if self._shared is None:
            return True
        return await self._shared.all_read_lines(state, store_id=self._writer.store_id)

    async def switches(self, state: Running, dek: Secret | None) -> tuple[Note, ...]:
        """Return what tells the other replicas of ``dek``, the key of the next epoch.

        Raises ``RefusedError`` if this one must not make that key, or ``UnavailableError``.
        """
        after, shared = self._writer.position, self._shared
        if dek is None or after is None or shared is None:
            return ()
        return await shared.notes_of(dek, state, store_id=self._writer.store_id, after=after)

    async def _catch_up(self) -> None:
        """Apply what another writer of the same store made durable first."""
        try:
            found = await self._writer.catch_up()
        except WrongKeyError as wrong:
            found = await self._switched(wrong)
        if isinstance(found, Replay):  # the other began an epoch: start again from its base
            payloads = found.base + found.events
            tail = LogTail()
            state, update_log = await asyncio.to_thread(rebuild, payloads, tail)
            await self._require_continued(state)
            await self._writer.public_log.resume(tail.filed, tail.leaves)
            self._current.replace(state, update_log)
            self._writer.adopt(state)
        elif found.events:
            after, events = await applied(self._current.view.running, found.events)
            await self._require_continued(after)
            self._current.publish(after, events)

    async def _require_continued(self, state: State) -> None:
        """Raise unless the line of ``state``, which another coordinator wrote, is proven.

        The journal is read already, so this process cannot serve what was before. It ends, and a
        new one judges all of it.
        """
        if self._origin is None or not isinstance(state, Running):
            return
        before = self._current.view.running
        try:
            await self._origin.require_continued(
                before, state, partial(self._writer.read_object, state)
            )
        except RefusedError as refused:
            raise BrokenError(refused.message, hint=refused.hint) from None
        except UnavailableError as unavailable:
            raise StartAgainError(
                f"what another coordinator has written cannot be judged: {unavailable.message}",
                hint=unavailable.hint or "start this one again",
            ) from None

    async def _switched(self, wrong: WrongKeyError) -> Replay:
        """Follow into an epoch with a new data key, which its writer left for this process.

        Raises ``StartAgainError`` if there is none: a new process asks for it, and judges all that
        it is given, as this one's state is of a manifest that is no longer in force.
        """
        state, position, shared = self._current.view.state, self._writer.position, self._shared
        if shared is None or position is None or not isinstance(state, Running):
            raise wrong
        store_id = self._writer.store_id
        dek = await shared.told(state, store_id=store_id, position=position)
        if dek is None:
            raise StartAgainError(
                "another coordinator has made a new data key, and this one was not told of it",
                hint="start it again: it asks those that serve, if the manifest still admits it",
            ) from wrong
        return await self._writer.switch(dek)

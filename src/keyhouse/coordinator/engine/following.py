"""Takes over what other writers of the same store have made durable."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from keyhouse.base.errors import StartAgainError, UnavailableError
from keyhouse.base.log import log
from keyhouse.base.secret import Secret
from keyhouse.coordinator.core.state import Running
from keyhouse.coordinator.engine.current import Current
from keyhouse.coordinator.engine.records import LogTail, applied, rebuild
from keyhouse.coordinator.engine.shared import Shared
from keyhouse.coordinator.engine.writer import JournalWriter
from keyhouse.journal import Replay, StoreConflictError, WrongKeyError
from keyhouse.journal.store.protocol import Note

TURNS: Final = 16
"""How often the engine waits for its turn to write, after others were first; then it gives up."""


class Following:
    """Keeps the view with the store, and tells others of a new data key and is told of theirs."""

    def __init__(self, current: Current, writer: JournalWriter, shared: Shared | None) -> None:
        self._current = current
        self._writer = writer
        self._shared = shared
        self.unreadable = False  # whether the store could not be read the last time

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

    async def show(self) -> None:
        """Prove to other replicas what this one is. Without that they do not tell it of a key."""
        if self._shared is None:
            return
        try:
            await self._shared.show(self._writer.store_id)
        except UnavailableError as error:
            log.warning("other coordinators cannot be shown a quote", reason=str(error))

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
            await self._writer.public_log.resume(tail.filed, tail.leaves)
            self._current.replace(state, update_log)
            self._writer.adopt(state)
        elif found.events:
            self._current.publish(*await applied(self._current.view.running, found.events))

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

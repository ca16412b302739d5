"""Turns of writing: writers that outran each other queue for one, in the order of their requests.

Each write compares where the store ends, so a turn is only a hint: it saves writers from preparing
changes in vain. It must never cost others more than that. It is an advisory lock in a transaction
without a change, on a connection that does nothing else. PostgreSQL ends a request for it, and a
transaction that is idle, after ``LONGEST``: so a writer whose network fails, or is slow, stops the
others for that long, once. Held by a row lock, a turn stopped them for as long as its transaction
could be idle, which was ten seconds.

A writer in a distant place needs its turn for several round trips. So that it leaves most of the
time to the others, it has no other turn until ``REST`` times as long has passed. It ends its turn
when it sends its write, and not when it has the answer: that would come too late.
"""

import asyncio
from contextlib import suppress
from time import perf_counter
from typing import Final
from zlib import crc32

from keyhouse.base.secret import Secret
from keyhouse.journal.store.postgres_connection import (
    ADVISORY,
    Connection,
    ConnectionDroppedError,
    connect,
)
from keyhouse.journal.store.protocol import StoreDamagedError, StoreUnreadableError

LONGEST: Final = 0.25
"""Seconds that a writer waits for its turn, and that it may be idle in it."""

SILENT: Final = 1.0
"""Seconds after which a writer no longer waits for the server to grant or refuse its turn."""

DISTANT: Final = 0.025
"""Seconds of a round trip from which on a writer is distant."""

REST: Final = 8
"""Lengths of a turn until a distant writer may have another one: the others keep 8 of 9 parts."""

KEY: Final = (ADVISORY, crc32(b"turn") - 2**31)
"""The advisory lock. A write that has no turn gets it shared, unless one has or awaits a turn."""

_MILLISECONDS = int(LONGEST * 1000)
_LIMITS = (
    f"SET lock_timeout = {_MILLISECONDS}; SET idle_in_transaction_session_timeout = {_MILLISECONDS}"
)
_BEGIN = "BEGIN; SELECT pg_advisory_xact_lock({}, {})".format(*KEY)


class Turns:
    """The turns of one writer, one at a time."""

    def __init__(self, url: Secret) -> None:
        self._url = url
        self._connection: Connection | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None
        self._resting_until = 0.0
        self._distant = False
        self._began = 0.0
        self._closed = False

    async def begin(self) -> bool:
        """Return whether to write without regard to the turns of others, after ``LONGEST`` at most.

        That is so in a turn, and where the wait for it was in vain. A writer that rests gives way.
        """
        await self.ended()
        if perf_counter() < self._resting_until:
            return False
        connection = self._connection
        if connection is None or connection.closed:
            self._connect()
            return True
        try:
            async with asyncio.timeout(SILENT):
                locked = await connection.lock(_BEGIN)
        except (ConnectionDroppedError, TimeoutError):
            return True
        self._began = perf_counter() if locked else 0.0
        return True

    def writing(self) -> None:
        """Take note that the write of this turn is sent now."""
        if self._distant:
            self.end()

    def end(self) -> None:
        """End the turn, if there is one; that takes place by itself."""
        if self._began and self._connection is not None:
            held, self._began = perf_counter() - self._began, 0.0
            self._ending = asyncio.create_task(self._end(self._connection, held))

    async def ended(self) -> None:
        """Return once the turn before has ended."""
        if self._ending is not None:
            await asyncio.wait([self._ending])
            self._ending = None

    def stay_at(self, server: str) -> None:
        """Drop a connection that leads to another server than ``server``."""
        if self._connection is not None and self._connection.server != server:
            self._connection.drop()

    async def close(self) -> None:
        """Close the connection."""
        self._closed = True
        for task in (self._connecting, self._ending):
            if task is not None:
                task.cancel()
                await asyncio.wait([task])
        if self._connection is not None:
            await self._connection.close()

    async def _end(self, connection: Connection, held: float) -> None:
        began = perf_counter()
        try:
            async with asyncio.timeout(LONGEST):
                await connection.execute("COMMIT")
        except (ConnectionDroppedError, TimeoutError):  # the server has ended it, or will
            connection.drop()
        self._measured(began)
        if self._distant:
            now = perf_counter()
            self._resting_until = now + REST * (held + now - began)

    def _measured(self, began: float) -> None:
        """Take note of a round trip that began then."""
        self._distant = perf_counter() - began > DISTANT

    def _connect(self) -> None:
        """Connect, without a caller that waits: until then its writes need no turn."""
        if not self._closed and (self._connecting is None or self._connecting.done()):
            self._connecting = asyncio.create_task(self._connected())

    async def _connected(self) -> None:
        with suppress(StoreUnreadableError, StoreDamagedError, ConnectionDroppedError):
            connection = await connect(self._url)
            try:
                began = perf_counter()
                await connection.execute(_LIMITS)
                self._measured(began)
            except BaseException:
                connection.drop()
                raise
            self._connection = connection

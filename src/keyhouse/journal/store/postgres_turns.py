"""Queue writers that met conflicts, in the order of their requests.

Each write compares the end of the store. So a writer that takes long to prepare a change may lose
again and again. A turn is time in which the other writers wait. A turn is only a hint: the
comparison decides, and a turn must never cost a writer more than a bounded wait.

A turn is an advisory lock in a transaction without changes, on a connection for turns only. A
writer without a turn requests the same lock, shared and without waiting. PostgreSQL ends a request
for the lock, and an idle transaction, after ``LONGEST``. So a writer with a slow or failed network
stops the store's writers for that long, once. The former design held a turn by a row lock. There, a
turn stopped all writers for ten seconds: the time limit of an idle transaction.

A distant writer needs a turn for several round trips. To leave most of the time to near writers, a
distant writer rests after a turn for ``REST`` times the length of the turn. It ends the turn when
it sends the write. To end the turn after the answer would hold the lock for another round trip. The
decision 0059 has the rejected designs.
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
"""The most seconds that a writer waits for a turn, and that its turn may be idle."""

SILENT: Final = 1.0
"""The most seconds that a writer waits for the server to grant or refuse a turn."""

DISTANT: Final = 0.025
"""Seconds of a round trip above which a writer is distant."""

REST: Final = 8
"""The rest of a distant writer, in lengths of its turn: other writers keep 8 of 9 parts."""

KEY: Final = (ADVISORY, crc32(b"turn") - 2**31)
"""The advisory lock.

A write without a turn requests the lock shared. The server refuses while a writer has or awaits a
turn.
"""

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
        """Return True if the next write may ignore turns of other writers.

        Wait ``LONGEST`` at most, or ``SILENT`` if the server does not answer.

        True: the writer has a turn, or the wait for a turn was in vain, or there is no connection
        for turns yet. False: the writer is distant and rests.
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
        """Record that the write of this turn is sent now. A distant writer then ends its turn."""
        if self._distant:
            self.end()

    def end(self) -> None:
        """End the turn, if there is one, in a task."""
        if self._began and self._connection is not None:
            held, self._began = perf_counter() - self._began, 0.0
            self._ending = asyncio.create_task(self._end(self._connection, held))

    async def ended(self) -> None:
        """Return after the last turn has ended."""
        if self._ending is not None:
            await asyncio.wait([self._ending])
            self._ending = None

    def stay_at(self, server: str) -> None:
        """Drop a connection that leads to a different server than ``server``."""
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
        # The server has ended the turn, or ends it soon.
        except (ConnectionDroppedError, TimeoutError):
            connection.drop()
        self._measured(began)
        if self._distant:
            now = perf_counter()
            self._resting_until = now + REST * (held + now - began)

    def _measured(self, began: float) -> None:
        """Measure a round trip that began at ``began``."""
        self._distant = perf_counter() - began > DISTANT

    def _connect(self) -> None:
        """Connect in a task. Until the connection exists, writes need no turn."""
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

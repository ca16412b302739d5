"""Turns of writing: writers that outran each other queue for one, in the order of their requests.

Each write compares where the store ends, so a turn is only a hint: it saves writers from preparing
changes in vain. It must never cost others more than that. It is an advisory lock in a transaction
without a change, on a connection that does nothing else. PostgreSQL ends a request for it, and a
transaction that is idle, after ``LONGEST``: so a writer whose network fails, or is slow, stops the
others for that long, once. Held by a row lock, a turn stopped them for as long as its transaction
could be idle, which was ten seconds.

The statement that acquires the lock also reads the records that others have written until then. So
a turn is held for one round trip: the answer and the write. A turn of two round trips is too long
for a writer 50 ms away: any other delay ends the 250 ms before the write comes.

A writer in a distant place holds its turn longer than others do. So that it leaves most of the
time to them, it has no other turn until ``REST`` times as long has passed. It ends its turn
when it sends its write, and not when it has the answer: that would come too late.
"""

import asyncio
from contextlib import suppress
from time import perf_counter
from typing import Any, Final
from zlib import crc32

from keyhouse.base.secret import Secret
from keyhouse.journal.store.postgres_connection import (
    ADVISORY,
    READS,
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

REST: Final = 6
"""Lengths of a turn until a distant writer may have another one: the others keep 6 of 7 parts."""

KEY: Final = (ADVISORY, crc32(b"turn") - 2**31)
"""The advisory lock. A write that has no turn gets it shared, unless one has or awaits a turn."""

_MILLISECONDS = int(LONGEST * 1000)
_LIMITS = (
    f"SET lock_timeout = {_MILLISECONDS}; SET idle_in_transaction_session_timeout = {_MILLISECONDS}"
)
LOCK: Final = "pg_advisory_xact_lock({}, {})".format(*KEY)
"""Waits for the lock, which the end of the transaction releases."""


class Turns:
    """The turns of one writer, one at a time.

    ``statement`` has ``columns``. Its last parameter tells whether it runs ``LOCK``, which is one
    row, or reads. ``rows``: of a turn that was granted, the rows that were read behind the lock;
    None where they may be out of date.
    """

    def __init__(self, url: Secret, statement: str, columns: int) -> None:
        self._url = url
        self._statement = statement
        self._columns = columns
        self._values: tuple[object, ...] = ()
        self._rows: list[tuple[Any, ...]] | None = None
        self._connection: Connection | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None
        self._resting_until = 0.0
        self._distant = False
        self._began = 0.0
        self._closed = False

    async def begin(self, *values: object) -> bool:
        """Return whether to write without regard to the turns of others, after ``LONGEST`` at most.

        That is so in a turn, and where the wait for it was in vain. A writer that rests gives way.
        ``values`` are the other parameters of the statement.
        """
        await self.ended()
        self._values = values
        if perf_counter() < self._resting_until:
            return False
        connection = self._connection
        if connection is None or connection.closed:
            self._connect()
            return True
        try:
            async with asyncio.timeout(SILENT):
                began = perf_counter()
                await connection.execute("BEGIN")
                self._measured(began)
                self._rows = await connection.locked(
                    self._statement, *values, columns=self._columns
                )
        except (ConnectionDroppedError, TimeoutError):
            self._connect()
            return True
        self._began = perf_counter() if self._rows is not None else 0.0
        return True

    def take_rows(self) -> list[tuple[Any, ...]] | None:
        """Return the rows that were read behind the lock, once; None if there are none.

        Nothing is known of them once the connection was dropped, or the turn's write was sent.
        """
        rows, self._rows = self._rows, None
        connection = self._connection
        return rows if connection is not None and not connection.closed else None

    def writing(self) -> None:
        """Take note that the write of this turn is sent now."""
        self._rows = None
        if self._distant:
            self.end()

    def end(self) -> None:
        """End the turn, if there is one; that takes place by itself."""
        self._rows = None
        if self._began and self._connection is not None:
            held, self._began = perf_counter() - self._began, 0.0
            self._ending = asyncio.create_task(self._end(self._connection, held))

    async def ended(self) -> None:
        """Return once the turn before has ended."""
        if self._ending is not None:
            await asyncio.wait([self._ending])
            self._ending = None

    def stay_at(self, server: str) -> None:
        """Replace a connection that was lost, or leads to another server than ``server``."""
        if self._connection is None:
            return
        if self._connection.server != server:
            self._connection.drop()
        if self._connection.closed:
            self._connect()

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
            self._connect()
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
                # The first run prepares the statement.
                values = (*self._values, READS)
                await connection.fetch(self._statement, *values, columns=self._columns)
                began = perf_counter()
                await connection.execute(_LIMITS)
                self._measured(began)
            except BaseException:
                connection.drop()
                raise
            self._connection = connection

"""Queue writers that met conflicts, in the order of their requests.

Each write compares the end of the store. So a writer that takes long to prepare a change may lose
again and again. A turn is time in which the other writers wait. A turn is only a hint: the
comparison decides, and a turn must never cost a writer more than a bounded wait.

The statement that acquires the lock also reads the new records of other writers. So a turn lasts
for one round trip: the answer and the write. Two round trips were too long for a writer 50 ms away,
because any further delay exceeded the 250 ms before the write arrived.

A distant writer holds its turn for longer. To leave most of the time to near writers, a distant
writer has no further turn until ``REST`` times as long has passed. A distant writer also ends its
turn when it sends its write, because the answer would come too late.
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
    ConnectionDroppedError,
    PostgresConnection,
    connect,
)
from keyhouse.journal.store.protocol import StoreDamagedError, StoreUnreadableError

LONGEST: Final = 0.25
"""Largest number of seconds that a writer waits for a turn, and that a turn may be idle."""

SILENT: Final = 1.0
"""Largest number of seconds that a writer waits for the server to grant or refuse a turn."""

DISTANT: Final = 0.025
"""A writer with longer round trips (in seconds) is distant."""

REST: Final = 6
"""Pause of a distant writer, in lengths of its last turn. Near writers keep 6 of 7 parts."""

KEY: Final = (ADVISORY, crc32(b"turn") - 2**31)
"""The advisory lock.

A write without a turn requests the lock shared. The server refuses while a writer has or awaits a
turn.
"""

_MILLISECONDS = int(LONGEST * 1000)
_LIMITS = (
    f"SET lock_timeout = {_MILLISECONDS}; SET idle_in_transaction_session_timeout = {_MILLISECONDS}"
)
LOCK: Final = "pg_advisory_xact_lock({}, {})".format(*KEY)
"""The call that waits for the lock. The end of the transaction releases the lock."""


class Turns:
    """The turns of one writer, one at a time.

    ``statement`` returns rows of ``columns`` values. If its last parameter says so, the statement
    runs ``LOCK`` and returns one row. Otherwise the statement reads records.
    """

    def __init__(self, url: Secret, statement: str, columns: int) -> None:
        self._url = url
        self._statement = statement
        self._columns = columns
        self._values: tuple[object, ...] = ()
        self._rows: list[tuple[Any, ...]] | None = None
        self._connection: PostgresConnection | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None
        self._resting_until = 0.0
        self._distant = False
        self._began = 0.0
        self._closed = False

    async def begin(self, *values: object) -> bool:
        """Wait for a turn, ``LONGEST`` at most; return whether the next write ignores all turns.

        The result is True in a turn, after a wait without success, and without a connection. The
        result is False for a resting writer: its next write yields to turns of all writers.
        ``values`` are the parameters of the statement before the last parameter.
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

    @property
    def server(self) -> str:
        """Return the database server that grants turns to this writer. Empty: no connection.

        In a turn, the other writers wait.
        """
        return self._connection.server if self._connection is not None else ""

    def pop_rows(self) -> list[tuple[Any, ...]] | None:
        """Return the rows that the statement at the begin of this turn has read.

        Return None in three cases, because the rows may be outdated: for a second call, after the
        write of this turn, or if the connection of the statement has ended.
        """
        rows, self._rows = self._rows, None
        connection = self._connection
        return rows if connection is not None and not connection.closed else None

    def writing(self) -> None:
        """Record that this writer now sends its write, so the next writer may prepare its own."""
        self._rows = None
        if self._distant:
            self.end()

    def end(self) -> None:
        """Let the next writer have its turn. Without a turn of this writer, do nothing.

        The lock is released in the background.
        """
        self._rows = None
        if self._began and self._connection is not None:
            held, self._began = perf_counter() - self._began, 0.0
            self._ending = asyncio.create_task(self._end(self._connection, held))

    async def ended(self) -> None:
        """Return after the end of the last turn."""
        if self._ending is not None:
            await asyncio.wait([self._ending])
            self._ending = None

    def stay_at(self, server: str) -> None:
        """Replace a connection that was lost, or that leads to another server than ``server``."""
        if self._connection is None:
            return
        if self._connection.server != server:
            self._connection.drop()
        if self._connection.closed:
            self._connect()

    async def close(self) -> None:
        """Close the connection to the database."""
        self._closed = True
        for task in (self._connecting, self._ending):
            if task is not None:
                task.cancel()
                await asyncio.wait([task])
        if self._connection is not None:
            await self._connection.close()

    async def _end(self, connection: PostgresConnection, held: float) -> None:
        began = perf_counter()
        try:
            async with asyncio.timeout(LONGEST):
                await connection.execute("COMMIT")
        # The server has ended the turn, or will end it soon.
        except (ConnectionDroppedError, TimeoutError):
            connection.drop()
            self._connect()
        if self._distant:
            now = perf_counter()
            self._resting_until = now + REST * (held + now - began)

    def _measured(self, began: float) -> None:
        """Decide whether this writer is distant, by the round trip that began at ``began``."""
        self._distant = perf_counter() - began > DISTANT

    def _connect(self) -> None:
        """Connect in a task. Writes need no turn until the connection exists."""
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

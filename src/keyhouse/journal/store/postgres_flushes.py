"""Flush early appends, which makes them durable, by commits on connections of their own.

The write-ahead log is one sequence, so a commit covers all records that were visible before the
commit. The connection must be older than the append or the read of the records. A crash of the
server ends all connections, so a commit on an older connection proves that there was no crash
since. The decision 0072 has the reasons.

Three flushes may be under way at a time. With one connection, a change during a flush would wait
for the rest of this flush and for a whole further flush.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

from keyhouse.journal.store.postgres_connection import (
    ConnectionDroppedError,
    PostgresConnection,
    outcome_unknown,
)
from keyhouse.journal.store.protocol import Flush

_LANES: Final = 3  # flushes at a time

Renew = Callable[[asyncio.Lock, Callable[[], Awaitable[PostgresConnection]]], None]
"""Runs the function in the background, under the lock."""


class _Lane:
    """A connection for one flush at a time."""

    def __init__(self) -> None:
        self.connection: PostgresConnection | None = None
        self.lock: Final = asyncio.Lock()
        self.flushed_on: PostgresConnection | None = None  # connection of the last flush

    @property
    def is_open(self) -> bool:
        return self.connection is not None and not self.connection.closed


class Flushes:
    """The connections for flushes. ``connect`` returns a new connection to the present server."""

    def __init__(self, connect: Callable[[], Awaitable[PostgresConnection]], renew: Renew) -> None:
        self._connect = connect
        self._renew = renew
        self._lanes: Final = tuple(_Lane() for _ in range(_LANES))

    @property
    def connections(self) -> Sequence[PostgresConnection]:
        """Return the connections, open or closed."""
        return [lane.connection for lane in self._lanes if lane.connection is not None]

    async def prepared(self) -> Flush:
        """Return the function that flushes records appended from now on. Connect if necessary."""
        flush = self.ready()
        if flush is None:
            lane = self._lanes[0]
            async with lane.lock:
                await self._connected(lane)
            flush = self.ready()
        return unproven if flush is None else flush

    def ready(self, server: str = "") -> Flush | None:
        """Return the function that flushes records read from now on; None without a connection.

        ``server``: use only connections to this server; empty: to any server.
        """
        older = [
            (lane, lane.connection)
            for lane in self._lanes
            if lane.connection is not None
            and not lane.connection.closed
            and server in {"", lane.connection.server}
        ]
        return partial(self._flush, older) if older else None

    def open_later(self) -> None:
        """Open a further connection in the background, for later flushes."""
        lane = next((each for each in self._lanes if not each.is_open), None)
        if lane is not None and not lane.lock.locked():
            self._renew(lane.lock, partial(self._connected, lane))

    def lost(self, connection: PostgresConnection) -> None:
        """Renew ``connection`` at once, if it has ended while unused."""
        for lane in self._lanes:
            if lane.connection is connection is lane.flushed_on and not lane.lock.locked():
                self._renew(lane.lock, partial(self._connected, lane))

    async def _flush(self, older: Sequence[tuple[_Lane, PostgresConnection]]) -> None:
        """Make all earlier records durable, by a commit on a connection in ``older``.

        All connections in ``older`` are older than the append or the read of the records, so a
        commit on any of them is a proof.
        """
        usable = [each for each in older if not each[1].closed]
        free = [each for each in usable if not each[0].lock.locked()]
        if not free:
            self.open_later()
        with outcome_unknown():
            if not usable:
                raise ConnectionDroppedError
            lane, connection = (free or usable)[0]
            async with lane.lock:
                lane.flushed_on = connection
                await flush_on(connection)

    async def _connected(self, lane: _Lane) -> PostgresConnection:
        if lane.connection is None or lane.connection.closed:
            lane.connection = await self._connect()
        return lane.connection


async def flush_on(connection: PostgresConnection) -> None:
    """Commit on ``connection``. Raises ``ConnectionDroppedError``."""
    if connection.closed:
        raise ConnectionDroppedError
    await connection.commit_something()


async def unproven() -> None:
    """Raise ``OutcomeUnknownError``: no connection can flush the records read before.

    Used as the flush function of records that were read while no connection for flushes was open.
    """
    with outcome_unknown():
        raise ConnectionDroppedError

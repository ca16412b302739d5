"""What the connections of one listener share, whatever protocol they speak."""

import asyncio
import math
from collections import deque
from collections.abc import Awaitable
from heapq import nsmallest
from types import CoroutineType
from typing import Any, Final, Protocol, TypeVar

from keyhouse.server.net.limits import ConnectionLimits
from keyhouse.server.net.transport import ConnectionHandler

T = TypeVar("T")

_LOOKS: Final = 16  # per so many closed for others there is at most one look at all of as many


class Connection(ConnectionHandler, Protocol):
    """One client of a listener, which tells it more than its transport does.

    It counts as a connection from its making until ``connection_lost``, which comes also where the
    handshake fails.
    """

    generation: int  # of the TLS context under which it connected

    def waits_since(self) -> float:
        """Return the time since when it waits for its client, on the listener's clock.

        That is infinite while the server works for the client.
        """

    def expire(self, now: float) -> None:
        """End what has passed its deadline at ``now``, the loop's time."""

    def close(self) -> None:
        """Close in order: what has begun is answered first."""

    def abort(self) -> None:
        """Close at once."""


class Connections:
    """The connections of a listener, and what it tells all of them.

    ``now`` is the loop's time at the last sweep. Used on the event loop's thread only.
    """

    def __init__(self, limits: ConnectionLimits) -> None:
        self.now = 0.0
        self.stopping = False
        self.oldest = 0  # connections of an older generation are closed
        self.failed_handshakes = 0
        self.none_left = asyncio.Event()
        self.none_left.set()
        self.waiting: set[asyncio.Future[Any]] = set()
        self._limits = limits
        self._open: dict[Connection, None] = {}  # in the order of their making
        self._longest = deque[tuple[float, Connection]]()  # that waited at the last look
        self._looked = -math.inf  # when
        self._closed = 0  # for others since then

    def __len__(self) -> int:
        return len(self._open)

    def look_at_clock(self, now: float) -> None:
        """Take over the loop's time, and forget what waited at an earlier one."""
        self.now = now
        self._longest.clear()

    def all(self) -> tuple[Connection, ...]:
        """Return those that are open now, handshakes included."""
        return tuple(self._open)

    def add(self, connection: Connection) -> None:
        """Count ``connection`` from now on."""
        self._open[connection] = None
        self.none_left.clear()

    def remove(self, connection: Connection) -> None:
        """Count it no more."""
        self._open.pop(connection, None)
        if not self._open:
            self.none_left.set()

    def make_room(self) -> bool:
        """Close the connection that waits longest for its client; return False if none waits.

        Who comes last is then served, unless it takes longer for its request than others need to
        fill all places with newer connections.
        """
        while True:
            while self._longest:
                since, connection = self._longest.popleft()
                if connection in self._open and connection.waits_since() == since:
                    self._closed += 1
                    connection.abort()
                    self.remove(connection)
                    return True
            if self._looked == self.now and self._closed * _LOOKS < len(self._open):
                return False
            self._looked, self._closed = self.now, 0
            waiting = ((each.waits_since(), each) for each in self._open)
            found = sorted((one for one in waiting if one[0] < math.inf), key=lambda one: one[0])
            self._longest.extend(found)
            if not found:
                return False

    def close_idle(self, since: float) -> int:
        """Close those that wait longest while too many have waited since before ``since``.

        Return how many. What a wait of the process costs may grow with each of them.
        """
        excess = len(self._open) - self._limits.idle_connections
        if excess <= 0:
            return 0
        waiting = [found for each in self._open if (found := (each.waits_since(), each))[0] < since]
        excess = len(waiting) - self._limits.idle_connections
        closed = nsmallest(max(0, excess), waiting, key=lambda found: found[0])
        for _, connection in closed:
            connection.abort()
            self.remove(connection)
        return len(closed)

    def is_unwelcome(self, generation: int) -> bool:
        """Tell whether a connection of ``generation`` is to end."""
        return self.stopping or generation < self.oldest

    def after(self, seconds: float) -> float:
        """Return the time that has surely come ``seconds`` from now."""
        return self.now + seconds + self._limits.sweep_interval

    def wait_for(self, outcome: Awaitable[T]) -> "asyncio.Future[T]":
        """Run ``outcome`` to its end and keep it until then."""
        # As ``ensure_future``, which takes five times as long to find that out.
        if isinstance(outcome, CoroutineType):
            future = asyncio.get_running_loop().create_task(outcome)
        else:
            future = asyncio.ensure_future(outcome)
        self.waiting.add(future)
        future.add_done_callback(self.waiting.discard)
        return future

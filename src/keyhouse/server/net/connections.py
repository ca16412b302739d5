"""The state that all connections of a listener share, whatever their protocol."""

import asyncio
import math
from collections import deque
from collections.abc import Awaitable
from heapq import nsmallest
from types import CoroutineType
from typing import Any, Final, Protocol, TypeVar

from keyhouse.base.log import log
from keyhouse.base.log_texts import HANDSHAKE_REFUSED
from keyhouse.server.logs import Pace
from keyhouse.server.net.limits import ConnectionLimits
from keyhouse.server.net.transport import ConnectionHandler

T = TypeVar("T")

# Scan all connections at most once for 16 evictions, so a scan costs O(n/16) for each.
_PER_SCAN: Final = 16


class Connection(ConnectionHandler, Protocol):
    """A connection of a client, in the form that the listener uses for every protocol.

    ``generation`` is the number of the listener's TLS context at the start of the connection. The
    connection counts against the limit from its creation until ``connection_lost``, which is called
    even after a failed handshake.
    """

    # The number of the TLS context of its handshake.
    generation: int

    def waits_since(self) -> float:
        """Return the time since which the connection waits for its client, on the loop's clock.

        The time is infinite while the server works for the client.
        """

    def expire(self, now: float) -> None:
        """End a phase of the connection whose deadline has passed at ``now``, the loop's time."""

    def close(self) -> None:
        """Close in order: a request in progress is answered first."""

    def abort(self) -> None:
        """Close the connection at once, without a reply."""


class Connections:
    """The connections of a listener, and the listener's calls to all of them.

    ``now`` is the loop's time at the last periodic check. At most ``most`` connections are open,
    and in addition ``protected`` connections with lasting calls. Use on the event loop's thread
    only.
    """

    def __init__(self, limits: ConnectionLimits, protected: int = 0) -> None:
        self.most = limits.connections
        self.most_protected = protected
        self.now = 0.0
        self.stopping = False
        # Connections of older generations are closed.
        self.oldest = 0
        self.failed_handshakes = 0
        self.unprotected = 0  # refusals of ``protect``
        self.none_left = asyncio.Event()
        self.none_left.set()
        self.waiting: set[asyncio.Future[Any]] = set()
        self._limits = limits
        # Connections with a lasting call of a verified client.
        self._protected: set[Connection] = set()
        # In the order of their creation.
        self._open: dict[Connection, None] = {}
        # Connections that waited longest at the last scan.
        self._longest = deque[tuple[float, Connection]]()
        # Time of the last scan.
        self._scanned_at = -math.inf
        # Evictions since the last scan.
        self._closed = 0

    def __len__(self) -> int:
        return len(self._open)

    @property
    def exposed(self) -> int:
        """The number of connections that the listener may close for new connections."""
        return len(self._open) - len(self._protected)

    @property
    def protected(self) -> int:
        """The number of connections that the listener never closes for new connections."""
        return len(self._protected)

    def set_time(self, now: float) -> None:
        """Store ``now``, the loop's time. The next ``make_room`` scans the connections again."""
        self.now = now
        self._longest.clear()

    def all(self) -> tuple[Connection, ...]:
        """Return the open connections, including connections in their handshake."""
        return tuple(self._open)

    def add(self, connection: Connection) -> None:
        """Count ``connection`` among the open connections from now on."""
        self._open[connection] = None
        self.none_left.clear()

    def remove(self, connection: Connection) -> None:
        """Stop counting ``connection``."""
        self._open.pop(connection, None)
        self._protected.discard(connection)
        if not self._open:
            self.none_left.set()

    def protect(self, connection: Connection) -> bool:
        """Exempt ``connection`` from eviction until ``expose``. Return False at the limit.

        Exempt connections do not count against ``most``, so anonymous connections never replace
        them.
        """
        if connection not in self._open or len(self._protected) >= self.most_protected:
            self.unprotected += 1
            return False
        self._protected.add(connection)
        return True

    def expose(self, connection: Connection) -> None:
        """End the exemption of ``connection``. Close a connection if too many are open now."""
        if connection not in self._protected:
            return
        self._protected.discard(connection)
        if self.exposed > self.most:
            self.make_room()

    def make_room(self) -> bool:
        """Close the connection that waits longest for its client. Return False if none waits.

        So the newest connection is served, unless newer connections of other clients replace it
        before its request arrives.
        """
        while True:
            while self._longest:
                since, connection = self._longest.popleft()
                if connection in self._open and connection.waits_since() == since:
                    self._closed += 1
                    connection.abort()
                    self.remove(connection)
                    return True
            if self._scanned_at == self.now and self._closed * _PER_SCAN < len(self._open):
                return False
            self._scanned_at, self._closed = self.now, 0
            waiting = ((each.waits_since(), each) for each in self._open)
            found = sorted((one for one in waiting if one[0] < math.inf), key=lambda one: one[0])
            self._longest.extend(found)
            if not found:
                return False

    def close_idle(self, since: float) -> int:
        """Close the longest waiting connections if too many wait. Return the number of closed ones.

        A connection counts if it has waited since before ``since``, a time of the loop. The limit
        ``idle_connections`` is the number of such connections that may be open. In a library OS,
        each idle connection may add to the cost of each wait of the process.
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
        """Return whether a connection of ``generation`` has to end.

        This is so after a stop of the listener, and after ``close_before`` for a later generation.
        """
        return self.stopping or generation < self.oldest

    def after(self, seconds: float) -> float:
        """Return the time ``seconds`` from now on the loop's clock, plus the interval of the sweep.

        The stored ``now`` can be older than the present by one sweep. So a deadline never comes too
        early.
        """
        return self.now + seconds + self._limits.sweep_interval

    def wait_for(self, outcome: Awaitable[T]) -> "asyncio.Future[T]":
        """Run ``outcome`` to its end, and hold a reference until then. Return its future."""
        # As ``ensure_future``, which needs five times as long for this decision.
        if isinstance(outcome, CoroutineType):
            future = asyncio.get_running_loop().create_task(outcome)
        else:
            future = asyncio.ensure_future(outcome)
        self.waiting.add(future)
        future.add_done_callback(self.waiting.discard)
        return future


COSTLY_KEY: Final = "the key of the client's certificate costs too much to check"
TOO_LARGE: Final = "what the client sends is too large, its certificates above all"


class Handshakes:
    """Limits the handshakes of a listener, and logs refused handshakes at a limited rate.

    Use on the event loop's thread only.

    ``most_bytes``: the bytes that a client may send before its handshake is complete.
    """

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self._pace = Pace()

    def refused(self, reason: str) -> None:
        """Log a refused handshake with its ``reason``, or only count it above the rate."""
        if suppressed := self._pace.finished():
            log.warning("more TLS handshakes were refused", suppressed=suppressed)
        if self._pace.admits():
            log.warning(HANDSHAKE_REFUSED, reason=reason)

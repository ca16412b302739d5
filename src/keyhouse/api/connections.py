"""What the connections of one listener share, whatever protocol they speak."""

import asyncio
from collections.abc import Awaitable
from typing import Any, Protocol, TypeVar

from keyhouse.api.limits import ConnectionLimits
from keyhouse.api.transport import Above

__all__ = ["Connection", "Connections"]

T = TypeVar("T")


class Connection(Above, Protocol):
    """One client of a listener, which tells it more than its transport does.

    It counts as a connection from its making until ``connection_lost``, which comes also where the
    handshake fails.
    """

    generation: int  # of the TLS context under which it connected

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
        self._open: set[Connection] = set()

    def __len__(self) -> int:
        return len(self._open)

    def all(self) -> tuple[Connection, ...]:
        """Return those that are open now, handshakes included."""
        return tuple(self._open)

    def add(self, connection: Connection) -> None:
        """Count ``connection`` from now on."""
        self._open.add(connection)
        self.none_left.clear()

    def remove(self, connection: Connection) -> None:
        """Count it no more."""
        self._open.discard(connection)
        if not self._open:
            self.none_left.set()

    def is_unwelcome(self, generation: int) -> bool:
        """Tell whether a connection of ``generation`` is to end."""
        return self.stopping or generation < self.oldest

    def after(self, seconds: float) -> float:
        """Return the time that has surely come ``seconds`` from now."""
        return self.now + seconds + self._limits.sweep_interval

    def wait_for(self, outcome: Awaitable[T]) -> "asyncio.Future[T]":
        """Run ``outcome`` to its end and keep it until then."""
        future = asyncio.ensure_future(outcome)
        self.waiting.add(future)
        future.add_done_callback(self.waiting.discard)
        return future

"""The processor time of the server for a single unit of a flood, alone on a connection.

A unit is a TLS record, a request or a frame. After the unit, an honest client requests the status
four times on a second connection. The server serves connections in turn, so it has read the unit
before the last answer. The time of the same requests without a unit is subtracted. The figure is
the minimum of several repetitions. Other programs on the machine empty the processor's caches, and
so prolong single repetitions.
"""

import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Final, Self

from benchmarks.coordinator import Coordinator
from benchmarks.floods.flood import connected
from benchmarks.floods.honest import ask, trusting
from benchmarks.floods.kinds import Kind
from benchmarks.floods.processor_time import processor_ms

__all__ = ["Costs"]

_PER_ROUND: Final = 7  # repetitions
_BARRIER: Final = 4  # requests for the status


class Costs:
    """The measurement of units at ``coordinator``. ``folder`` is for the TLS key logs."""

    def __init__(self, coordinator: Coordinator, folder: Path, rounds: int) -> None:
        self._repetitions = rounds * _PER_ROUND
        self._coordinator = coordinator
        self._folder = folder
        plain = socket.create_connection(("127.0.0.1", coordinator.port), 60)
        self._honest: ssl.SSLSocket = trusting().wrap_socket(plain)
        self._nothing = min(self._work(lambda: None) for _ in range(self._repetitions))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._honest.close()

    def of(self, kind: Kind) -> float:
        """Measure a unit of ``kind`` in ms, as the minimum of several repetitions."""
        return max(0.0, min(self._one(kind) for _ in range(self._repetitions)) - self._nothing)

    def _one(self, kind: Kind) -> float:
        with connected(self._coordinator, kind, self._folder) as attacker:
            units = kind.units(attacker.writer)
            attacker.socket.sendall(b"".join(next(units) for _ in range(kind.opening)))
            self._barrier()
            unit = next(units)
            return self._work(lambda: attacker.socket.sendall(unit))

    def _work(self, act: Callable[[], None]) -> float:
        self._barrier()
        before = processor_ms(self._coordinator.process.pid)
        act()
        self._barrier()
        return processor_ms(self._coordinator.process.pid) - before

    def _barrier(self) -> None:
        for _ in range(_BARRIER):
            ask(self._honest)

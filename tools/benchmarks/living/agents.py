"""Many workloads that wait for changes. After a message, each workload acts with a random delay."""

import heapq
import queue
import random
import selectors
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Any, Final

from benchmarks.living.wire import RefusedError, Wire
from benchmarks.living.workload import STREAM, Workload
from benchmarks.processes import TroubleError

from keyhouse.wire import workload_pb2

__all__ = ["Act", "Agents"]

Act = Callable[[Workload, Wire], Wire]
"""The reaction of an agent to a message; returns the connection with the stream afterwards."""

_POLL: Final = 0.005
_THREADS: Final = 8
_TRIES: Final = 5
_PATIENCE: Final = 180.0


class Agents:
    """The streams of ``workloads``. ``failures`` counts the failed and repeated calls."""

    def __init__(self, workloads: Iterable[Workload]) -> None:
        self._selector = selectors.DefaultSelector()
        self._due: list[tuple[float, int, Workload, Wire]] = []
        self._numbers = count()
        self._done: queue.SimpleQueue[tuple[Workload, Wire] | Exception] = queue.SimpleQueue()
        self.failures = 0
        with ThreadPoolExecutor(_THREADS) as pool:
            for workload, wire in pool.map(lambda each: (each, each.watch()), workloads):
                self._register(workload, wire)

    def close(self) -> None:
        """Close all streams."""
        for key in tuple(self._selector.get_map().values()):
            key.data[1].close()
        self._selector.close()

    def run(self, act: Act, times: int) -> list[float]:
        """Call ``act`` after messages until ``times`` calls have ended; return the end times."""
        ended: list[float] = []
        began = time.monotonic()
        with ThreadPoolExecutor(_THREADS) as pool:
            while len(ended) < times:
                if time.monotonic() > began + _PATIENCE:
                    raise TroubleError(f"{times - len(ended)} workloads received no message")
                for key, _ in self._selector.select(_POLL):
                    self._read(*key.data)
                now = time.monotonic()
                while self._due and self._due[0][0] <= now:
                    _, _, workload, wire = heapq.heappop(self._due)
                    pool.submit(self._act, act, workload, wire)
                while not self._done.empty():
                    done = self._done.get()
                    if isinstance(done, Exception):
                        raise done
                    ended.append(time.monotonic())
                    self._register(*done)
        return ended

    def _register(self, workload: Workload, wire: Wire) -> None:
        self._selector.register(wire.stream, selectors.EVENT_READ, (workload, wire))

    def _read(self, workload: Workload, wire: Wire) -> None:
        messages: list[bytes] = []
        try:
            messages = wire.messages(STREAM)
        except RefusedError:  # the end of a stream follows its last message
            messages = wire.left(STREAM)
        if not messages:
            return
        spread: Any = workload_pb2.WatchResponse.FromString(messages[-1]).spread_ms
        self._selector.unregister(wire.stream)
        due = time.monotonic() + random.random() * spread / 1000  # noqa: S311 no secret
        heapq.heappush(self._due, (due, next(self._numbers), workload, wire))

    def _act(self, act: Act, workload: Workload, wire: Wire) -> None:
        try:
            self._done.put((workload, self._repeated(act, workload, wire)))
        except Exception as error:  # noqa: BLE001 the main thread raises it
            self._done.put(error)

    def _repeated(self, act: Act, workload: Workload, wire: Wire) -> Wire:
        for _ in range(_TRIES):
            try:
                return act(workload, wire)
            except (RefusedError, OSError):
                self.failures += 1
        raise TroubleError(f"all {_TRIES} tries of a workload failed")

"""TCP proxies between replicas and the nodes of their database, in a separate process."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from support.process.server import free_port
from support.replicas.proxy import Order

__all__ = ["Address", "Proxies"]

Address = tuple[str, int]

_TESTS: Final = Path(__file__).parents[2]


class Proxies:
    """A proxy for each target, at ports of 127.0.0.1. Many threads may use the object."""

    def __init__(self, process: subprocess.Popen[str], ports: Sequence[int]) -> None:
        self._process = process
        self._lock = threading.Lock()
        self.ports: Final = tuple(ports)

    @classmethod
    @contextmanager
    def running(cls, targets: Sequence[Address]) -> Iterator["Proxies"]:
        """Serve a proxy for each of ``targets`` until the context ends."""
        ports = [free_port() for _ in targets]
        given = [
            {"port": port, "host": h, "to": p} for port, (h, p) in zip(ports, targets, strict=True)
        ]
        process = subprocess.Popen(
            [sys.executable, "-B", "-m", "support.replicas.proxy", json.dumps(given)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONPATH": str(_TESTS)},
            start_new_session=True,  # Ctrl-C reaches only this process, which ends the proxies
        )  # fmt: skip
        try:
            proxies = cls(process, ports)
            proxies._answered()
            yield proxies
        finally:
            assert process.stdin is not None
            process.stdin.close()  # the program ends at the end of its input
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()

    def order(self, number: int, what: str, **more: Any) -> None:
        """Send an order to a proxy; return when the proxy has executed the order. See ``Order``."""
        order = Order(self.ports[number], what, **more)
        with self._lock:
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps(order._asdict()) + "\n")
            self._process.stdin.flush()
            self._answered()

    def lead(self, number: int, to: Address) -> None:
        """Redirect new connections of a proxy to another address."""
        self.order(number, "target", host=to[0], to=to[1])

    def _answered(self) -> None:
        assert self._process.stdout is not None
        assert self._process.stdout.readline(), "the proxies have ended"

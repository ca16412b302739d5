"""A relay in front of a workload API, with a fault at a chosen step of a connection."""

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import count
from types import TracebackType
from typing import Final, Self

__all__ = ["FaultyRelay"]

_PIECE: Final = 65_536
_PATIENCE: Final = 30.0


class FaultyRelay:
    """Relays bytes between clients and ``port`` of 127.0.0.1.

    A step is a piece of bytes in either direction. At the step ``fault_at`` of a connection the
    relay drops the piece, runs ``fault``, and closes the connection. ``steps`` counts the steps of
    the last connection. ``before`` runs before each connection to the coordinator, with the number
    of the connection (from 1).
    """

    def __init__(self, port: int) -> None:
        self._target = port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listening.getsockname()[1])
        self.fault: Callable[[], object] = lambda: None
        self.fault_at = 0  # 0: never
        self.before: Callable[[int], object] = lambda number: number
        self.steps = 0
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    def settle(self) -> None:
        """Disable the fault; wait until no fault runs."""
        with self._lock:
            self.fault_at = 0

    def _start(self, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=work, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with suppress(OSError):  # the context has closed the socket
            for number in count(1):
                client, _ = self._listening.accept()
                self.steps = 0
                self.before(number)
                try:
                    server = socket.create_connection(("127.0.0.1", self._target))
                except OSError:
                    client.close()
                    continue
                self._start(partial(self._relay_both, client, server))

    def _relay_both(self, client: socket.socket, server: socket.socket) -> None:
        with client, server:
            back = threading.Thread(target=self._relay, args=(server, client))
            back.start()
            self._relay(client, server)
            back.join()

    def _relay(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(_PIECE):
                with self._lock:
                    self.steps += 1
                    fails = self.steps == self.fault_at
                    if fails:
                        self.fault()
                if fails:
                    break
                target.sendall(data)
        for each in (source, target):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for thread in self._threads:
            thread.join(_PATIENCE)

"""Orders of the agent to the supervisor."""

from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import NamedTuple

from keyhouse.base.errors import KeyhouseError
from keyhouse.launcher.program import Program


class Reload(NamedTuple):
    """The rules of a marble type for changed files.

    At most one of ``signal``, ``command`` and ``restart`` is set.
    """

    signal: str = ""  # HUP, USR1, USR2 or TERM
    command: tuple[bytes, ...] = ()
    restart: bool = False
    stop_at_end: bool = False


class Start(NamedTuple):
    """The order to start the program for the first time."""

    program: Program
    reload: Reload


class Changed(NamedTuple):
    """The order to notify or restart the program, because its files or parameters have changed."""

    program: Program  # for a restart
    reload: Reload
    restart: bool  # whether more than the own certificate has changed


class Ends(NamedTuple):
    """The order to store the end of the certificate, which is ``seconds`` of elapsed time away."""

    seconds: float
    stops: bool  # whether the program stops then


class Failed(NamedTuple):
    """The order to end the launch with ``error``, because the program cannot start."""

    error: KeyhouseError


Order = Start | Changed | Ends | Failed


class OrderQueue:
    """The orders from the agent's thread to the supervisor's thread, oldest first.

    ``wake`` interrupts the wait of the supervisor.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self._queue: SimpleQueue[Order] = SimpleQueue()
        self._wake = wake

    def send(self, order: Order) -> None:
        """Append ``order``, and wake the supervisor."""
        self._queue.put(order)
        self._wake()

    def receive(self) -> Order | None:
        """Remove and return the oldest order; None without an order."""
        try:
            return self._queue.get_nowait()
        except Empty:
            return None

"""Orders of the agent to the supervisor."""

from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import NamedTuple

from keyhouse.base.errors import KeyhouseError
from keyhouse.launcher.program import Program


class Reload(NamedTuple):
    """The rules of the type for changes. At most one of the first three is set."""

    signal: str = ""  # HUP, USR1, USR2 or TERM
    command: tuple[bytes, ...] = ()
    restart: bool = False
    stop_at_end: bool = False


class Start(NamedTuple):
    """Start the program for the first time."""

    program: Program
    reload: Reload


class Changed(NamedTuple):
    """Files of the program have changed, and the program has to notice it."""

    program: Program  # for a restart
    reload: Reload
    restart: bool  # whether more than the own certificate has changed


class Ends(NamedTuple):
    """The certificate ends after ``seconds`` of elapsed time, from now on."""

    seconds: float
    stops: bool  # whether the program stops then


class Failed(NamedTuple):
    """The program cannot start, because the workload did not get its parameters."""

    error: KeyhouseError


Order = Start | Changed | Ends | Failed


class Orders:
    """A queue from one thread to another. ``wake`` interrupts the waiting thread."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._queue: SimpleQueue[Order] = SimpleQueue()
        self._wake = wake

    def give(self, order: Order) -> None:
        """Append ``order``, and wake the other thread."""
        self._queue.put(order)
        self._wake()

    def take(self) -> Order | None:
        """Return the oldest order, or None."""
        try:
            return self._queue.get_nowait()
        except Empty:
            return None

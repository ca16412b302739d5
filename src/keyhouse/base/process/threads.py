"""Threads of a process whose main thread handles signals."""

import signal
import threading
from typing import Final

_FAULTS: Final = frozenset({signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL})
_FOR_MAIN: Final = frozenset(signal.valid_signals()) - _FAULTS


def start_without_signals(thread: threading.Thread) -> None:
    """Start ``thread`` with blocked signals: the main thread receives them.

    Python runs handlers on the main thread, and only a signal to that thread interrupts a wait. The
    kernel may choose any thread without a blocked signal, for example after the process was stopped
    by Ctrl-Z.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _FOR_MAIN)
    try:
        thread.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

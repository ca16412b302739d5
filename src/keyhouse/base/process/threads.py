"""Threads of a process whose main thread handles signals."""

import signal
import threading
from typing import Final

_ENDING: Final = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP})


def start_without_signals(thread: threading.Thread) -> None:
    """Start ``thread`` with SIGINT, SIGTERM and SIGHUP blocked, so the main thread receives them.

    Python runs handlers on the main thread, and only a signal to that thread interrupts a wait. The
    kernel may deliver a signal to any thread that does not block it. It does so after the process
    was stopped for a while, for example by Ctrl-Z.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    try:
        thread.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

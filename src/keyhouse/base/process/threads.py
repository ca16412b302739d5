"""Threads beside a main thread that handles signals."""

import signal
import threading
from typing import Final

_ENDING: Final = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP})


def start_without_signals(thread: threading.Thread) -> None:
    """Start ``thread`` with SIGINT, SIGTERM and SIGHUP blocked: the main thread gets them.

    Handlers run on the main thread, and only a signal delivered to that thread interrupts its
    waiting. The kernel may deliver one to any thread that does not block it, and does so where the
    process was stopped for a while, as by Ctrl-Z.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    try:
        thread.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

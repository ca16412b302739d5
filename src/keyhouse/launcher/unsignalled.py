"""Threads that take no signal that ends this process."""

import signal
import threading
from typing import Final

__all__ = ["start_without_signals"]

_ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def start_without_signals(thread: threading.Thread) -> None:
    """Start a thread that leaves the signals which end this process to the main thread.

    Handlers run on the main thread, which waits for something: only a signal that the main thread
    itself takes interrupts it, and the kernel gives one to any thread that may have it. It does so
    where the process was stopped for a while, as by Ctrl-Z.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    try:
        thread.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

"""Threads that work while a context lasts."""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

__all__ = ["threads"]


@contextmanager
def threads(ending: threading.Event, works: Iterable[Callable[[], None]]) -> Iterator[None]:
    """Do each of ``works`` in a thread of its own; at the end set ``ending`` and wait for all."""
    started = [threading.Thread(target=work, daemon=True) for work in works]
    for thread in started:
        thread.start()
    try:
        yield
    finally:
        ending.set()
        for thread in started:
            thread.join()

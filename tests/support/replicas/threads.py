"""Threads for the time of a context."""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

__all__ = ["threads"]


@contextmanager
def threads(ending: threading.Event, works: Iterable[Callable[[], None]]) -> Iterator[None]:
    """Run each of ``works`` in a thread; at the end, set ``ending`` and join all threads."""
    started = [threading.Thread(target=work, daemon=True) for work in works]
    for thread in started:
        thread.start()
    try:
        yield
    finally:
        ending.set()
        for thread in started:
            thread.join()

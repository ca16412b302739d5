"""How far long work is, told to a program that shows it. Without one, telling it does nothing."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, Protocol


class Watcher(Protocol):
    """Shows how far work is."""

    def begin(self, part: str, total: int) -> None:
        """Show that a part of the work has begun, which has ``total`` units, of any kind."""

    def advance(self, done: int) -> None:
        """Show that ``done`` more units of it are done."""


_WATCHER: Final[ContextVar[Watcher | None]] = ContextVar("watcher", default=None)


@contextmanager
def watched_by(watcher: Watcher) -> Iterator[None]:
    """Tell ``watcher`` of the work in the block, in tasks that it starts as well."""
    token = _WATCHER.set(watcher)
    try:
        yield
    finally:
        _WATCHER.reset(token)


def is_watched() -> bool:
    """Return whether anyone is told."""
    return _WATCHER.get() is not None


def begin(part: str, total: int) -> None:
    """Tell that a part of the work begins: a word for people, and how many units it has."""
    if (watcher := _WATCHER.get()) is not None:
        watcher.begin(part, total)


def advance(done: int) -> None:
    """Tell that ``done`` more units are done."""
    if (watcher := _WATCHER.get()) is not None:
        watcher.advance(done)

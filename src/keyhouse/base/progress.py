"""Reports the progress of long work to a watcher. Without a watcher, a report has no effect."""

from contextvars import ContextVar
from typing import Final, Protocol


class Watcher(Protocol):
    """Receives reports of progress, for example to draw a bar."""

    def begin(self, part: str, total: int) -> None:
        """Handle the start of a part of the work. ``total`` counts units of any kind."""

    def advance(self, done: int) -> None:
        """Handle the completion of ``done`` further units of the current part."""


WATCHER: Final[ContextVar[Watcher | None]] = ContextVar("watcher", default=None)
"""The watcher of the present work."""


def is_watched() -> bool:
    """Return whether a watcher receives the reports. If not, nobody needs to compute a report."""
    return WATCHER.get() is not None


def begin(part: str, total: int) -> None:
    """Report the start of a part of long work; ``total`` is the number of its units."""
    if (watcher := WATCHER.get()) is not None:
        watcher.begin(part, total)


def advance(done: int) -> None:
    """Report the completion of ``done`` further units of the current part."""
    if (watcher := WATCHER.get()) is not None:
        watcher.advance(done)

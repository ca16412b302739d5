"""Draw the progress of long work on a terminal, with a bar if the amount of work is known."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from shutil import get_terminal_size
from typing import Final

import click

from keyhouse.base.printable import printable
from keyhouse.base.progress import WATCHER, Watcher

_ERASE: Final = "\r\033[K\033[?25h"
"""Return to the first column, erase the line, and show the cursor that click hides.

ECMA-48, EL (erase in line); DECTCEM (private mode 25) for the cursor.
"""


@contextmanager
def long_work(what: str, *, quiet: bool, at_once: bool = True) -> Iterator[None]:
    """Draw the progress of the block's work on standard error; erase the drawing at the end.

    ``what`` names the work. Nothing is drawn with ``quiet``, or without a terminal. With
    ``at_once``, the drawing begins immediately. Otherwise, the drawing begins when the work first
    reports its amount.
    """
    if quiet or not sys.stderr.isatty():
        yield
        return
    bar = _Bar(printable(what))
    try:
        with watched_by(bar):
            if at_once:
                bar.announce()
            yield
    finally:
        bar.close()


class _Bar:
    """Draws the progress of work on a single line of the terminal. ``what`` names the work."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._update: Callable[[int], None] | None = None

    def announce(self) -> None:
        """Write the name of the work, before the amount of work is known."""
        self._write(f"{self._what} ..."[: max(get_terminal_size().columns - 1, 0)])

    def begin(self, part: str, total: int) -> None:
        self.close()
        label = f"{self._what}: {part}"
        bar = click.progressbar(length=total, label=label, width=20, file=sys.stderr)
        bar.render_progress()
        self._update = bar.update

    def advance(self, done: int) -> None:
        if self._update is not None:
            self._update(done)

    def close(self) -> None:
        """Erase the line of the progress bar from the terminal."""
        self._update = None
        self._write(_ERASE)

    @staticmethod
    def _write(text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()


@contextmanager
def watched_by(watcher: Watcher) -> Iterator[None]:
    """Report progress in the block, and in tasks that the block starts, to ``watcher``."""
    token = WATCHER.set(watcher)
    try:
        yield
    finally:
        WATCHER.reset(token)

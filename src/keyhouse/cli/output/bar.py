"""A bar on a terminal for work that may take long: its share of the whole where that is known."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from keyhouse.base.printable import printable
from keyhouse.base.progress import watched_by

if TYPE_CHECKING:
    from rich.progress import Progress


@contextmanager
def long_work(what: str, *, quiet: bool, at_once: bool = True) -> Iterator[None]:
    """Show ``what`` and how far it is, if standard error is a terminal; nothing is left of it.

    ``quiet``: show nothing, as for ``--json``. Without ``at_once`` it is shown only as soon as
    something tells how much there is to do.
    """
    if quiet or not sys.stderr.isatty():
        yield
        return
    bar = _Bar(printable(what))
    try:
        with watched_by(bar):
            if at_once:
                bar.show(None)
            yield
    finally:
        bar.close()


class _Bar:
    """The watcher on a terminal."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._progress: Progress | None = None

    def begin(self, part: str, total: int) -> None:
        self.show(total, part)

    def advance(self, done: int) -> None:
        if self._progress is not None:
            self._progress.advance(self._progress.task_ids[0], done)

    def show(self, total: int | None, part: str = "") -> None:
        """Show the bar, or the next ``part`` in it; without a total it only says that it moves."""
        text = f"{self._what}: {part}" if part else self._what
        if self._progress is None:
            self._progress = _progress()
            self._progress.add_task(text, total=total)
            self._progress.start()
        else:
            task = self._progress.task_ids[0]
            self._progress.reset(task, description=text, total=total)
            self._progress.refresh()

    def close(self) -> None:
        if self._progress is not None:
            self._progress.stop()


def _progress() -> "Progress":
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    text = TextColumn("{task.description}", markup=False)
    columns = (text, BarColumn(bar_width=20), TaskProgressColumn(), TimeElapsedColumn())
    return Progress(
        *columns,
        console=Console(stderr=True),
        transient=True,
        redirect_stdout=False,  # it may hold the result
        redirect_stderr=False,
    )

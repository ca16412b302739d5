"""Rows of cells: with lines and colours on a terminal, plain columns for everything else."""

import os
import sys
from collections.abc import Sequence
from shutil import get_terminal_size
from typing import Final

from keyhouse.base.printable import printable

__all__ = ["show_table"]

_LINES: Final = 3  # characters around a cell of a drawn table


def show_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print ``rows`` under ``head``.

    Plain columns, two spaces between them, if it goes to no terminal, or to one that is too narrow:
    a drawn table would be cut off there.
    """
    shown = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(head, *shown, strict=True)]
    fits = sum(width + _LINES for width in widths) < get_terminal_size().columns
    if fits and sys.stdout.isatty() and not os.environ.get("NO_COLOR"):
        _draw(head, shown)
        return
    for row in (head, *shown):
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        sys.stdout.write("  ".join(cells).rstrip() + "\n")


def _draw(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(*head, box=SIMPLE, header_style="bold")
    for row in rows:
        table.add_row(*map(Text, row))
    Console().print(table)

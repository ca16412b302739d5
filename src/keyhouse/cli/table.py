"""Rows of cells: with lines and colours on a terminal, plain columns for everything else."""

import os
import sys
from collections.abc import Sequence

from keyhouse.cli.printable import printable

__all__ = ["show_table"]


def show_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print ``rows`` under ``head``; two spaces between columns if it goes to no terminal."""
    shown = [[printable(cell) for cell in row] for row in rows]
    if sys.stdout.isatty() and not os.environ.get("NO_COLOR"):
        _draw(head, shown)
        return
    widths = [max(map(len, column)) for column in zip(head, *shown, strict=True)]
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

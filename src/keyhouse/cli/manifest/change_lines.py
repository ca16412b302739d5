"""Format changes of a manifest as lines: a sign before each change, and dangers at the end.

The signs are ``+`` for an addition, ``-`` for a removal and ``~`` for a change.
"""

import textwrap
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Final, TextIO

import click

from keyhouse.cli.output.width import columns
from keyhouse.views.changes import SignedChange
from keyhouse.views.visible import visible

_WIDTH: Final = 100  # columns in files and on wide terminals
_SHADES: Final = {"+": "green", "-": "red", "~": "yellow"}


def width_for(stream: TextIO) -> int:
    """Return the width for lines on ``stream``: 100 columns, or fewer on a narrow terminal."""
    return min(columns(stream) or _WIDTH, _WIDTH)


def wrapped(head: str, text: str, indent: str = "  ", *, width: int = _WIDTH) -> list[str]:
    """Return ``text`` in lines of up to ``width`` columns.

    The first line begins with ``head``, and each further line with ``indent``. Control characters
    are escaped, so ``text`` cannot forge a line.
    """
    return textwrap.wrap(
        visible(text),
        width,
        initial_indent=head,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def section_lines(
    changes: Iterable[SignedChange], *, colour: bool, width: int | None = None
) -> Iterator[str]:
    """Yield a line for each section of the manifest, then lines for its changes with their signs.

    ``colour``: add colours for a terminal. ``width`` in columns; None: each change is on a single
    line with its spaces unchanged.
    """
    for section, inside in groupby(changes, lambda each: each.section):
        head = f"  {visible(section)}"
        yield click.style(head, bold=True) if colour else head
        for _, sign, text in inside:
            head = f"    {sign} "
            whole = [head + visible(text)]
            for line in wrapped(head, text, "      ", width=width) if width else whole:
                yield click.style(line, fg=_SHADES[sign]) if colour else line


def danger_lines(texts: Iterable[str], *, colour: bool, width: int = _WIDTH) -> Iterator[str]:
    """Yield a warning, then lines with ``texts``, the irreversible effects of a change.

    Without such effects, yield nothing. ``colour``: add colours for a terminal. ``width``: in
    columns.
    """
    lines = [line for text in texts for line in wrapped("  ! ", text, "    ", width=width)]
    if lines:
        for line in ("DANGER: this cannot be undone", *lines):
            yield click.style(line, fg="red", bold=True) if colour else line

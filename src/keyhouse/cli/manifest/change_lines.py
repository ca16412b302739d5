"""Format changes for a terminal: a sign before each change (``+ - ~``), dangers at the end."""

import textwrap
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Final

import click

from keyhouse.views.changes import SignedChange
from keyhouse.views.visible import visible

_WIDTH: Final = 100  # columns
_SHADES: Final = {"+": "green", "-": "red", "~": "yellow"}


def wrapped(head: str, text: str, indent: str = "  ") -> list[str]:
    """Return ``head`` and ``text`` on lines of up to 100 columns.

    Control characters are escaped, so ``text`` cannot forge a line.
    """
    return textwrap.wrap(
        visible(text),
        _WIDTH,
        initial_indent=head,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def section_lines(
    changes: Iterable[SignedChange], *, colour: bool, wraps: bool = True
) -> Iterator[str]:
    """Yield each section, then its changes with their signs.

    Without ``wraps``, each text is on a single line with its spaces unchanged.
    """
    for section, inside in groupby(changes, lambda each: each.section):
        head = f"  {visible(section)}"
        yield click.style(head, bold=True) if colour else head
        for _, sign, text in inside:
            head = f"    {sign} "
            for line in wrapped(head, text, "      ") if wraps else [head + visible(text)]:
                yield click.style(line, fg=_SHADES[sign]) if colour else line


def danger_lines(texts: Iterable[str], *, colour: bool) -> Iterator[str]:
    """Yield lines with the irreversible effects, marked as a danger; nothing without effects."""
    lines = [line for text in texts for line in wrapped("  ! ", text, "    ")]
    if lines:
        for line in ("DANGER: this cannot be undone", *lines):
            yield click.style(line, fg="red", bold=True) if colour else line

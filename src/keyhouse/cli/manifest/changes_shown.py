"""How changes look to people: a sign before each (``+ - ~``), a summary, and dangers last."""

import textwrap
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Final, Literal

import click
import msgspec

from keyhouse.base.printable import printable

__all__ = ["Sign", "Summary", "danger_lines", "section_lines", "wrapped"]

Sign = Literal["+", "-", "~"]

_WIDTH: Final = 100  # columns
_SHADES: Final = {"+": "green", "-": "red", "~": "yellow"}


def wrapped(head: str, text: str, indent: str = "  ") -> list[str]:
    """Return ``head`` and ``text`` on lines of up to 100 columns; nothing can forge a line."""
    return textwrap.wrap(
        printable(text),
        _WIDTH,
        initial_indent=head,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def section_lines(
    changes: Iterable[tuple[str, Sign, str]], *, colour: bool, wraps: bool = True
) -> Iterator[str]:
    """Yield each section, then its changes (section, sign, text), with a sign in front.

    Unless it ``wraps``, each text is on one line, with its spaces as they are.
    """
    for section, inside in groupby(changes, lambda each: each[0]):
        head = f"  {printable(section)}"
        yield click.style(head, bold=True) if colour else head
        for _, sign, text in inside:
            head = f"    {sign} "
            for line in wrapped(head, text, "      ") if wraps else [head + printable(text)]:
                yield click.style(line, fg=_SHADES[sign]) if colour else line


def danger_lines(texts: Iterable[str], *, colour: bool) -> Iterator[str]:
    """Yield what cannot be undone, loud; nothing if there is nothing."""
    lines = [line for text in texts for line in wrapped("  ! ", text, "    ")]
    if lines:
        for line in ("DANGER: this cannot be undone", *lines):
            yield click.style(line, fg="red", bold=True) if colour else line


class Summary(msgspec.Struct, frozen=True):
    """How many entries come, go and change, and what is lost with them."""

    added: int
    removed: int
    changed: int
    lost: int = 0

    def __str__(self) -> str:
        """Return such as ``2 to add, 1 to change, 1 value lost``; "nothing to change" if so."""
        values = "value" if self.lost == 1 else "values"
        parts = (
            (self.added, "to add"),
            (self.changed, "to change"),
            (self.removed, "to remove"),
            (self.lost, f"{values} lost"),
        )
        told = ", ".join(f"{count} {what}" for count, what in parts if count)
        return told or "nothing to change"

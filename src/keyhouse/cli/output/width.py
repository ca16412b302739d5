"""Fit text to the width of a terminal. Files and pipes receive each text on a single line."""

import os
import re
from typing import Final, TextIO

import click

_USUAL: Final = 80  # columns, if the terminal does not state its width
_SPACES: Final = re.compile("( +)")


def columns(stream: TextIO) -> int | None:
    """Return the width of the terminal behind ``stream``, or None if there is no terminal.

    The variable COLUMNS takes precedence, as in other programs.
    """
    if not stream.isatty():
        return None
    text = os.environ.get("COLUMNS", "")
    given = int(text) if text.isascii() and text.isdecimal() else 0
    try:
        return given or os.get_terminal_size(stream.fileno()).columns or _USUAL
    except OSError:
        return _USUAL


def fitted(text: str, width: int | None, indent: int = 2) -> str:
    """Return ``text``, a single line, with line breaks between words, for ``width`` columns.

    Later lines begin with ``indent`` spaces. A word longer than a line stays whole, so that people
    can copy it. Codes for colours do not count. None for ``width``: return ``text`` unchanged.
    """
    if width is None or len(click.unstyle(text)) <= width:
        return text
    parts = _SPACES.split(text)
    lines, used = [parts[0]], len(click.unstyle(parts[0]))
    for gap, word in zip(parts[1::2], parts[2::2], strict=True):
        length = len(click.unstyle(word))
        if used + len(gap) + length <= width or not lines[-1].strip():
            lines[-1] += gap + word
            used += len(gap) + length
        else:
            lines.append(" " * indent + word)
            used = indent + length
    return "\n".join(lines)

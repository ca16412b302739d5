"""Problems of a file as a compiler shows them: file, line, and a caret under the column."""

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

import click
import msgspec

from keyhouse.base.errors import Problem
from keyhouse.base.printable import printable
from keyhouse.manifest.source.source_map import SourceMap, Span

__all__ = ["SourceText", "as_objects"]

_BEFORE: Final = 40  # characters of a long line that are shown before what is meant
_WIDEST: Final = 100
_SECRET: Final = re.compile("private", re.IGNORECASE)
"""A line, or a path, that may belong to the value of a secret: such lines are never shown."""


class SourceText(msgspec.Struct, frozen=True):
    """A file and where its parts stand. ``name`` is the path as it was typed."""

    name: str
    content: bytes
    places: SourceMap

    def show(self, kind: str, problems: Iterable[Problem], *, colour: bool) -> str:
        """Return a paragraph for each problem; ``kind`` is ``error`` or ``warning``."""
        lines = re.split("\r\n|\n|\r", self.content.decode("utf-8", errors="replace"))
        return "".join(self._paragraph(kind, each, lines, colour=colour) for each in problems)

    def _paragraph(self, kind: str, each: Problem, lines: Sequence[str], *, colour: bool) -> str:
        span = self.places.find(each.at)
        where = f"{self.name}:{span.line}:{span.column}" if span else self.name
        what = f"{each.at}: {each.problem}" if each.at else each.problem
        text = (
            f"{_bold(printable(where), on=colour)}: {_marked(kind, on=colour)}: {printable(what)}\n"
        )
        if span is not None and not _SECRET.search(each.at):
            text += _excerpt(lines[span.line - 1], span, colour=colour)
        return text + (f"  hint: {printable(each.hint)}\n" if each.hint else "")


def as_objects(problems: Iterable[Problem], places: SourceMap) -> list[dict[str, Any]]:
    """Return problems for programs: with ``line`` and ``column``, from 1; null if unknown."""
    found = []
    for each in problems:
        span = places.find(each.at)
        line, column = (span.line, span.column) if span else (None, None)
        found.append({**msgspec.to_builtins(each), "line": line, "column": column})
    return found


def _excerpt(line: str, span: Span, *, colour: bool) -> str:
    """Return the line and the caret under it, nothing if the line may hold a secret."""
    if _SECRET.search(line):
        return ""
    start = max(0, span.column - 1 - _BEFORE) if len(line) > _WIDEST else 0
    cut = line[start : start + _WIDEST]
    shown = "".join(char if char.isprintable() else " " for char in cut)
    before = span.column - 1 - start
    caret = "^" * max(1, min(span.width, len(shown) - before))
    margin = f"{span.line:>6} | "
    under = " " * (len(margin) - 2) + "| " + " " * before
    return f"{margin}{shown.rstrip()}\n{under}{_marked(caret, on=colour)}\n"


def _bold(text: str, *, on: bool) -> str:
    return click.style(text, bold=True) if on else text


def _marked(text: str, *, on: bool) -> str:
    shade = "yellow" if text == "warning" else "red"
    return click.style(text, fg=shade, bold=True) if on else text

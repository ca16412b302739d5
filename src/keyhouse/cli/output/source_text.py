"""Show the problems of a file like a compiler: file, line, and a caret below the column."""

import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Final

import click
import msgspec

from keyhouse.base.errors import KeyhouseError, Problem
from keyhouse.cli.output.error_object import error_object
from keyhouse.cli.output.show import ShownError
from keyhouse.cli.output.width import columns
from keyhouse.manifest.source.json_source import json_places, json_problem
from keyhouse.manifest.source.source_map import SourceMap, Span, place_of
from keyhouse.views.visible import is_visible, visible

# Characters before the problem in a long line, chosen: half of a narrow terminal.
_BEFORE: Final = 40
# Characters of an excerpt, chosen: the length of the longest lines in this project.
_WIDEST: Final = 100
_MARGIN: Final = 9  # columns of the number of a line
_NARROWEST: Final = 20  # characters of an excerpt on a narrow terminal
_SECRET: Final = re.compile("private", re.IGNORECASE)
"""A line, or a path, that may belong to the value of a secret: such lines are never shown."""
_NAMED: Final = re.compile("""["'A-Za-z0-9_-]\\s*:""")
"""A line on which a member begins."""


class FileInvalidError(ShownError):
    """A file is invalid. The error has all ``problems``; ``source`` has their lines and columns.

    ``cause`` is the original error: it decides the exit code and the code in JSON.
    """

    def __init__(
        self, source: "SourceText", problems: Sequence[Problem], cause: KeyhouseError
    ) -> None:
        super().__init__(f"{source.name}: {'; '.join(map(str, problems[:20]))}")
        self.source = source
        self.problems = tuple(problems)
        self.cause = cause

    def text(self, *, colour: bool) -> str:
        """Return the problems as lines for people, with colours if ``colour``."""
        count = len(self.problems)
        head = f"error: {visible(self.source.name)}: {count} problem{'s' if count != 1 else ''}\n"
        return head + self.source.show("error", self.problems, colour=colour)

    def as_object(self) -> dict[str, Any]:
        """Return the object for ``--json``: the object of ``cause``, with lines and columns."""
        objects = error_object(self.cause)
        objects["error"]["message"] = self.message
        objects["error"]["problems"] = as_objects(self.problems, self.source.places)
        return objects


def located(error: KeyhouseError, path: str, content: bytes, *, is_secret: bool) -> KeyhouseError:
    """Return ``error`` about the JSON file ``path`` with line and column of each problem.

    ``content`` is the content of the file. With ``is_secret``, the result shows no line of the
    file. Without problems in ``error``, the result is the same error; its message names the file.
    """
    syntax = json_problem(content)
    problems = [syntax] if syntax else getattr(error, "problems", ())
    if problems:
        source = SourceText(path, b"" if is_secret else content, json_places(content))
        return FileInvalidError(source, problems, error)
    if path not in error.message:
        error.message = f"{path}: {error.message}"
    return error


class SourceText(msgspec.Struct, frozen=True):
    """The text of a file, and the positions of its fields, to show a problem with its line.

    ``name`` is the path from the command line. ``content`` is empty if no line may be shown.
    """

    name: str
    content: bytes
    places: SourceMap

    def show(self, kind: str, problems: Iterable[Problem], *, colour: bool) -> str:
        """Return a paragraph for each of ``problems``, with colours if ``colour``.

        ``kind`` is the first word of a paragraph: ``error`` or ``warning``.
        """
        lines = re.split("\r\n|\n|\r", self.content.decode("utf-8", errors="replace"))
        return "".join(self._paragraph(kind, each, lines, colour=colour) for each in problems)

    def _paragraph(self, kind: str, each: Problem, lines: Sequence[str], *, colour: bool) -> str:
        span = place_of(self.places, each)
        where = f"{self.name}:{span.line}:{span.column}" if span else self.name
        what = f"{each.at}: {each.problem}" if each.at else each.problem
        text = f"{_bold(visible(where), on=colour)}: {_marked(kind, on=colour)}: {visible(what)}\n"
        if span is not None and self.content and not _SECRET.search(each.at):
            text += _excerpt(lines[: span.line], span, colour=colour)
        return text + (f"  hint: {visible(each.hint)}\n" if each.hint else "")


def as_objects(problems: Iterable[Problem], places: SourceMap) -> list[dict[str, Any]]:
    """Return ``problems`` as objects for JSON, with ``line`` and ``column`` from 1, or null.

    ``places`` has the positions of the file's fields.
    """
    objects = []
    for each in problems:
        span = place_of(places, each)
        line, column = (span.line, span.column) if span else (None, None)
        objects.append({**msgspec.to_builtins(each), "line": line, "column": column})
    return objects


def _excerpt(lines: Sequence[str], span: Span, *, colour: bool) -> str:
    """Return the last line in ``lines`` as an excerpt, with carets below the columns of ``span``.

    The result is "" if the line may contain the value of a secret. For a line without the name of a
    member, the member above decides, because the line may continue the value of that member.
    """
    line = lines[-1]
    above = next((each for each in reversed(lines[:-1]) if _NAMED.search(each)), "")
    if _SECRET.search(line) or (_SECRET.search(above) and not _NAMED.search(line)):
        return ""
    widest = min(_WIDEST, max((columns(sys.stderr) or _WIDEST) - _MARGIN, _NARROWEST))
    before = min(_BEFORE, widest // 2)
    start = max(0, span.column - 1 - before) if len(line) > widest else 0
    cut = line[start : start + widest]
    shown = "".join(char if is_visible(char) else " " for char in cut)
    before = span.column - 1 - start
    caret = "^" * max(1, min(span.width, len(shown) - before))
    margin = f"{span.line:>6} | "
    under = " " * (len(margin) - 2) + "| " + " " * before
    return f"{margin}{shown.rstrip()}\n{under}{_marked(caret, on=colour)}\n"


def _bold(text: str, *, on: bool) -> str:
    return click.style(text, bold=True) if on else text


def _marked(text: str, *, on: bool) -> str:
    colour = "yellow" if text == "warning" else "red"
    return click.style(text, fg=colour, bold=True) if on else text

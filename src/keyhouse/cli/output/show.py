"""Print rows, tables, JSON and errors, and show the current work."""

import json
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from shutil import get_terminal_size
from typing import Any, Final, TextIO

import click
import msgspec

from keyhouse.base.errors import KeyhouseError
from keyhouse.base.process.error_text import error_text
from keyhouse.cli.output.error_object import error_object
from keyhouse.cli.output.width import columns, fitted
from keyhouse.views.visible import visible

_GAP: Final = "  "
"""Separates the columns of a table."""

_NEXT: Final = "pass the value that was printed last"

# Texts about requests in answers of a coordinator, and their replacements for commands.
_WHOLE: Final = {
    'send the value of the field "next" of the previous page': _NEXT,
    # Two texts of older coordinators.
    "send the value next of the previous page": _NEXT,
    "take it from next of the answer before": _NEXT,
    'send {"manifest": its JSON text in base64}': "pass a manifest file",
    'send {"sgxQuote": the quote in base64}': "pass a file with a quote",
    "name a PCCS (pccs) or a bundle (collateral)": "pass --simulation-root FILE for a simulated"
    " machine; for hardware, pass --pccs URL or --collateral FILE",
    "send a JSON object": "pass a file with a JSON object",
    "send at least one secret by its name": "pass at least one secret",
}
_EXCERPT: Final = re.compile(r" +(?:[0-9]+ )?\| ")
"""The beginning of a line of a file in an error, or of the line with its caret."""
_QUERY: Final = re.compile(r"name each secret: \S+\?s=one&s=two")


class ShownError(KeyhouseError):
    """An error with a text of its own. ``cause`` decides the exit code and the code in JSON."""

    cause: KeyhouseError

    def text(self, *, colour: bool) -> str:
        """Return the lines of the error for people, with colours if ``colour``."""
        raise NotImplementedError

    def as_object(self) -> dict[str, Any]:
        """Return the object for ``--json``."""
        raise NotImplementedError


def coloured(stream: TextIO) -> bool:
    """Return whether output on ``stream`` has colours: on a terminal without ``NO_COLOR``."""
    return stream.isatty() and not os.environ.get("NO_COLOR")


def show_error(error: KeyhouseError, *, as_json: bool) -> None:
    """Print ``error`` on standard error: as lines for people, or as one JSON object."""
    error.message, error.hint = in_commands(error.message), in_commands(error.hint)
    if isinstance(error, ShownError):
        fields, text = error.as_object(), error.text(colour=coloured(sys.stderr))
    else:
        fields, text = error_object(error), error_text(error)
    sys.stderr.write(_json(fields) + "\n" if as_json else _fitted_lines(text))


def _fitted_lines(text: str) -> str:
    """Return ``text`` with more line breaks for a narrow terminal.

    An excerpt of a file is not broken, because a caret marks a column of the line above.
    """
    width = columns(sys.stderr)
    lines = text.split("\n")
    return "\n".join(line if _EXCERPT.match(line) else fitted(line, width) for line in lines)


def in_commands(text: str) -> str:
    """Return ``text`` with advice about commands in place of advice about requests.

    ``text`` is an error text or a hint. A coordinator's hint explains the body of a request, but a
    user of commands writes no request.
    """
    for request_text, command_text in _WHOLE.items():
        text = text.replace(request_text, command_text)
    return _QUERY.sub("keyhouse secret get NAME...", text)


def show_json(value: Any) -> None:
    """Print ``value`` as JSON on a single line."""
    sys.stdout.write(_json(value) + "\n")


def show_rows(rows: Mapping[str, str], *, wraps: bool = False) -> None:
    """Print the names and values of ``rows`` in two columns; names are bold on a terminal.

    A value is on a single line. With ``wraps``, a value on a terminal breaks between words.
    """
    bold = coloured(sys.stdout)
    names = [visible(name) for name in rows]
    width = max(map(len, names)) + 1
    for name, value in zip(names, rows.values(), strict=True):
        shown = click.style(name.ljust(width), bold=True) if bold else name.ljust(width)
        line = f"{shown} {visible(value)}"
        limit = columns(sys.stdout) if wraps else None
        sys.stdout.write(fitted(line, limit, width + 1) + "\n")


def show_result(
    result: Any, rows: Mapping[str, str], *, as_json: bool, wraps: bool = False
) -> None:
    """Print the result of a command: with ``as_json`` the object ``result``, else ``rows``.

    ``wraps`` as for ``show_rows``.
    """
    if as_json:
        show_json(result)
    else:
        show_rows(rows, wraps=wraps)


def show_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print the cells of ``rows`` in columns under ``head``, the titles of the columns.

    On a terminal with colours, ``head`` is bold, and a line separates it from the rows. On a
    terminal that is too narrow for the table, each row is a paragraph with a line for each cell.
    """
    shown = [[visible(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(head, *shown, strict=True)]
    width = sum(widths) + len(_GAP) * (len(widths) - 1)
    limit = columns(sys.stdout)
    if limit is not None and width > limit and rows:
        _show_paragraphs(head, rows)
        return
    title = _columns(head, widths)
    if coloured(sys.stdout):
        title = click.style(title, bold=True) + "\n" + "\u2500" * width
    sys.stdout.write(title + "\n")
    for row in shown:
        sys.stdout.write(_columns(row, widths) + "\n")


def _show_paragraphs(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    for number, row in enumerate(rows):
        if number:
            sys.stdout.write("\n")
        cells = zip(head, row, strict=True)
        show_rows({name: cell for name, cell in cells if cell}, wraps=True)


def _columns(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
    return _GAP.join(padded).rstrip()


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show ``what``, the present work, on standard error during the block; only on a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    # Cut the text to the width of the terminal: a wrapped line could not be erased.
    shown = f"{visible(what)} ..."[: max(get_terminal_size().columns - 1, 0)]
    sys.stderr.write(shown)
    sys.stderr.flush()
    try:
        yield
    finally:
        sys.stderr.write("\r" + " " * len(shown) + "\r")
        sys.stderr.flush()


def _json(value: Any) -> str:
    try:
        return msgspec.json.encode(value).decode("utf-8")
    except UnicodeEncodeError:  # escape bytes of file names that are not UTF-8
        return json.dumps(msgspec.to_builtins(value), separators=(",", ":"))


def stand_in_streams() -> None:
    """Replace standard streams that the caller of this program has closed.

    A replaced standard input is empty, and a replaced standard error discards the text. A write to
    a replaced standard output fails, so the command does not report a success without its output.
    """
    if sys.stdin is None:
        _null(0, os.O_RDONLY)
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 for good
    if sys.stdout is None:
        _null(1, os.O_RDONLY)
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    if sys.stderr is None:
        _null(2, os.O_WRONLY)
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115


def _null(descriptor: int, mode: int) -> None:
    """Open the null device as ``descriptor``, also for programs that this process executes.

    ``mode``: the flags of ``os.open``.
    """
    handle = os.open(os.devnull, mode)
    if handle == descriptor:
        os.set_inheritable(handle, True)  # noqa: FBT003 the standard library's way
    else:
        os.dup2(handle, descriptor)
        os.close(handle)

"""Warnings about characters of a manifest that are invisible or reorder the text around them."""

from collections.abc import Iterator
from typing import Any, Final

from keyhouse.base.errors import MOST, Problem
from keyhouse.cli.output.source_text import SourceText
from keyhouse.manifest.source.source_map import below
from keyhouse.views.visible import code_point, is_visible
from keyhouse.wire.json_parser import read_json

NAME: Final = "is a name with"
"""First words of a warning about the name of a member."""

_HINT: Final = "remove the character, unless you wrote it on purpose"
# Characters that have a meaning of their own in a value of several lines.
_LINES: Final = frozenset("\n\r\t")
# Different characters that a warning names.
_SHOWN: Final = 3


def invisible_warnings(raw: bytes, source: SourceText) -> list[Problem]:
    """Return warnings about invisible characters in the manifest ``raw`` and its file ``source``.

    ``raw`` is the uploaded JSON text. The function checks both: only ``source`` has the comments of
    YAML, and only ``raw`` has a character that the file writes as an escape.
    """
    warnings = list(_in_values("", read_json(raw)))
    lines = set()
    for each in warnings:
        span = source.places.find(each.at, key=each.problem.startswith(NAME))
        lines.add(span.line if span is not None else 0)
    text = source.content.decode("utf-8", errors="replace").replace("\r\n", "\n")
    for number, line in enumerate(text.split("\n"), 1):
        if number not in lines and (found := _invisible(line)):
            warnings.append(Problem("", f"line {number} holds {found}", _HINT))
    return warnings[:MOST]


def _in_values(path: str, value: Any) -> Iterator[Problem]:
    if isinstance(value, dict):
        for name, member in value.items():
            inner = below(path, name)
            if found := _invisible(name, keeps_lines=False):
                yield Problem(inner, f"{NAME} {found}", _HINT)
            yield from _in_values(inner, member)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _in_values(below(path, index), item)
    elif isinstance(value, str) and (found := _invisible(value)):
        yield Problem(path, f"holds {found}", _HINT)


def _invisible(text: str, *, keeps_lines: bool = True) -> str:
    """Return the code points of the invisible characters in ``text``, as words; "" for none.

    ``keeps_lines``: line ends and tabs are permitted.
    """
    if text.isascii() and text.isprintable():
        return ""
    allowed = _LINES if keeps_lines else frozenset()
    found = {each: None for each in text if each not in allowed and not is_visible(each)}
    named = [code_point(each) for each in [*found][:_SHOWN]]
    more = len(found) - len(named)
    return ", ".join(named) + (f" and {more} more" if more else "")

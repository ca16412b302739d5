"""JSON as people write it: positions of its parts, reasons of errors, and its canonical form."""

import json
import re
from collections.abc import Iterator
from typing import Final

from keyhouse.base.errors import Problem
from keyhouse.manifest.source.source_map import NotTextError, SourceMap, TextLines, below, text_of

_WORD: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[][{}:,]|[^][{}:,"\s]+')
_CLOSED: Final = {"{": "}", "[": "]"}
_CLOSING: Final = frozenset("]}")
_DIGITS: Final = frozenset("0123456789.")


class _Open:
    """An object or list whose closing bracket was not read yet, with its path and its next item."""

    def __init__(self, path: str, *, is_list: bool) -> None:
        self.path = path
        self.index = 0 if is_list else None
        self.key: str | None = None

    @property
    def next(self) -> str:
        """The path of the next value in the document."""
        return below(self.path, self.key or "" if self.index is None else self.index)

    def step_on(self) -> None:
        """Move to the next item of a list, or expect the next key of an object."""
        if self.index is None:
            self.key = None
        else:
            self.index += 1


def json_places(data: bytes) -> SourceMap:
    """Return the positions of keys and values in ``data``, by path.

    For invalid JSON, the result only has the position of the first error, under the path "". Never
    fails. Call this function after ``keyhouse.wire.json_parser`` has read or refused ``data``: its
    limits bound the depth here.
    """
    text = data.decode("utf-8", errors="replace")
    lines, places = TextLines(text), SourceMap()
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        at = _fault(text, error.pos)
        places.record("", lines.span(at, at + 1))
        return places
    except (RecursionError, ValueError):  # over a limit; the parser reports it
        return places
    for path, start, end, is_key in _parts(text):
        places.record(path, lines.span(start, end), is_key=is_key)
    return places


def json_problem(data: bytes, *, or_yaml: bool = False) -> Problem | None:
    """Return the reason why ``data`` is invalid JSON, with a hint; None if no error is found.

    For line and column of the error, look up the path "" in ``json_places(data)``. The problem
    quotes nothing of ``data``. With ``or_yaml``, the hint also explains how to pass a YAML file.
    """
    try:
        text = text_of(data)
    except NotTextError as refusal:
        return refusal.problem
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        reason, hint = _reason(text, _fault(text, error.pos), or_yaml=or_yaml)
        return Problem("", f"invalid JSON: {reason}", hint)
    except (RecursionError, ValueError):  # over a limit; the parser reports it
        return None
    return None


def _parts(text: str) -> Iterator[tuple[str, int, int, bool]]:
    """Yield the path, start and end (offsets) of each key and each value, and whether it is a key.

    For an object or list inside a list, only the opening bracket is yielded. For an object or list
    inside an object, only its key is yielded.
    """
    stack: list[_Open] = []
    for found in _WORD.finditer(text):
        word, inner = found.group(), stack[-1] if stack else None
        if word in _CLOSING:
            stack.pop()
        elif word == "," and inner is not None:
            inner.step_on()
        elif inner is not None and inner.index is None and inner.key is None:
            inner.key = json.loads(word)
            yield inner.next, found.start(), found.end(), True
        elif word != ":":
            opens = word in _CLOSED
            if inner is not None and (inner.index is not None or not opens):
                yield inner.next, found.start(), found.end(), False
            if opens:
                path = inner.next if inner is not None else ""
                stack.append(_Open(path, is_list=word == "["))


def _fault(text: str, at: int) -> int:
    """Return the offset of the fault. The scanner stopped at the offset ``at``.

    For a comma before a closing bracket, the fault is the comma. The scanner stops behind this
    comma.
    """
    before = text[:at].rstrip(" \t\r\n")
    return len(before) - 1 if text[at : at + 1] in _CLOSING and before.endswith(",") else at


def _reason(text: str, at: int, *, or_yaml: bool) -> tuple[str, str]:
    """Return the fault at the position where the scanner stopped, and a hint.

    ``or_yaml``: as in ``json_problem``. The fault is derived from the text, because Python's
    messages differ between its versions.
    """
    if '"' in _WORD.sub("", text[:at]):
        if text[at : at + 1] < " ":
            return "a line end or control character in a string", r"write \n for a line end"
        return "an invalid escape in a string", r"write \\ for a backslash"
    here, before = text[at : at + 2], text[:at].rstrip(" \t\r\n")
    opener, char = _innermost(before), here[:1]
    end, quotes = _CLOSED.get(opener, "value"), 'put text between double quotes: "..."'
    in_number = char in _DIGITS and text[at - 1 : at].isdigit()
    object_hint = "if it is YAML, its name must end in .yaml" if or_yaml else "check the file"
    open_string = char == '"' and not _WORD.match(text, at)
    cases = (
        (not here, f"it ends before its {end}", "check that the file is complete"),
        (here in {"//", "/*"} or char == "#", "a comment", "remove the comment: JSON has none"),
        (char == "," and before[-1:] != ":", "a comma too many", "remove the comma"),
        (char == "'", "single quotes", 'use double quotes: "..."'),
        (open_string, "a string that does not end", 'end the string with "'),
        (in_number, "an invalid number", "put text between double quotes"),
        (not before, "it does not begin with {", object_hint),
        (not opener, "further text after its end", "remove the text after the end"),
        (char in _CLOSING and char != end, f"{char} where {end} is needed", f"write {end} first"),
        (opener == "{" and before[-1] in "{,", "a name without quotes", quotes),
        (opener == "{" and _expects_colon(before), "no colon after a name", "write the colon"),
        (before[-1:] in {":", ",", "["}, "a value without quotes, or none", quotes),
        (True, "no comma between two values", "write a comma after the first of them"),
    )
    return next((reason, hint) for holds, reason, hint in cases if holds)


def _innermost(before: str) -> str:
    """Return the innermost open bracket at the end of ``before``, or ""."""
    stack: list[str] = []
    for found in _WORD.finditer(before):
        word = found.group()
        if word in _CLOSED:
            stack.append(word)
        elif word in _CLOSING and stack:
            stack.pop()
    return stack[-1] if stack else ""


def _expects_colon(before: str) -> bool:
    """Return whether the last string of ``before`` is a name: after ``{`` or a comma."""
    words = _WORD.findall(before)
    return len(words) > 1 and words[-1].startswith('"') and words[-2] in {"{", ","}


def canonical_json(value: object) -> bytes:
    """Return ``value`` (None, bool, int, str, list, dict) as canonical JSON in UTF-8.

    No white space, no line end. Members are sorted by the UTF-16 code units of their names. Strings
    escape only the double quote, the backslash and control characters. The form is RFC 8785, except
    for large integers: all digits are written, because a manifest has integers of up to 64 bits.
    """
    return json.dumps(_sorted(value), ensure_ascii=False, separators=(",", ":")).encode()


def _sorted(value: object) -> object:
    if isinstance(value, dict):
        names = sorted(value, key=lambda name: str(name).encode("utf-16-be"))
        return {name: _sorted(value[name]) for name in names}
    return [_sorted(item) for item in value] if isinstance(value, list) else value

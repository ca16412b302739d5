"""The positions of keys and values in a manifest as a person wrote it: line and column by path."""

import bisect
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from keyhouse.base.errors import Problem
from keyhouse.base.printable import at
from keyhouse.wire.json_decoder import REPEATED, UNKNOWN

_SAVE: Final = "save it as UTF-8 without a byte-order mark"
_MARKS: Final = (
    (b"\xef\xbb\xbf", "begins with a byte-order mark"),
    (b"\xff\xfe", "is UTF-16, not UTF-8"),
    (b"\xfe\xff", "is UTF-16, not UTF-8"),
)
_OTHERS: Final = (
    (b"-----BEGIN ", "is a certificate or a key (PEM)"),
    (b"\x1f\x8b", "is compressed (gzip)"),
    (b"PK\x03\x04", "is a ZIP archive"),
    (b"0\x82", "is binary (DER?)"),
    (b"\x7fELF", "is a program"),
)
_WRONG_FILE: Final = "check that this is the right file"

_OF_NAMES: Final = (
    UNKNOWN,
    REPEATED,
    "is a key that",
    "is a name with",
    "is not a name of",
    "is not a path",
    "has no effect",
    "is missing",
)
"""First words of problems about a member's name: their place is the name, not the value."""

_STEP: Final = re.compile(r'\.?[A-Za-z0-9_-]+$|\[(?:[0-9]+|"(?:[^"\\]|\\.)*")\]$', re.ASCII)


class NotTextError(Exception):
    """The bytes of a file are not UTF-8 text, or are empty. ``problem`` is the reason."""

    def __init__(self, problem: str, hint: str = "") -> None:
        super().__init__(problem)
        self.problem = Problem("", problem, hint)


def text_of(data: bytes) -> str:
    """Return ``data`` as text. Raises ``NotTextError``, which never quotes ``data``."""
    for mark, problem in _MARKS:
        if data.startswith(mark):
            raise NotTextError(problem, _SAVE)
    for beginning, problem in _OTHERS:
        if data.startswith(beginning):
            raise NotTextError(problem, _WRONG_FILE)
    if not data.strip(b" \t\r\n"):
        raise NotTextError("is empty", _WRONG_FILE)
    if (zero := data.find(b"\0")) >= 0:
        raise NotTextError(f"is binary: byte {zero + 1} is zero", _WRONG_FILE)
    try:
        return data.decode()
    except UnicodeDecodeError as failure:  # not chained, because the error contains the bytes
        start = failure.start
    line = data.count(b"\n", 0, start) + 1
    raise NotTextError(f"is not UTF-8, byte {start + 1} in line {line}", _SAVE)


class Span(NamedTuple):
    """A part of a line: ``line`` and ``column`` count from 1, ``width`` is in characters."""

    line: int
    column: int
    width: int = 1


def below(path: str, step: str | int) -> str:
    """Return the path of the value at ``step`` in the object or list at ``path``."""
    piece = at(step)
    return f"{path}.{piece}" if path and not piece.startswith("[") else path + piece


class SourceMap:
    """The position of each path (such as ``Marbles.web.Package``) in the text of a manifest.

    If a key is repeated, the map has the positions of the last key and of its value. The parser
    uses this value, too.
    """

    def __init__(self) -> None:
        self._keys: dict[str, Span] = {}
        self._values: dict[str, Span] = {}
        self._spelled: dict[str, str] = {}  # spelled paths by path in lower case

    def record(self, path: str, span: Span, *, is_key: bool = False) -> None:
        """Record the position of the value at ``path``, or of its key with ``is_key``.

        A value without a recorded position is found by its key.
        """
        (self._keys if is_key else self._values)[path] = span
        if is_key:
            self._values.pop(path, None)  # value of an earlier member with this key
        self._spelled[path.lower()] = path

    def find(self, path: str, *, key: bool = False) -> Span | None:
        """Return the position of ``path``, or of its nearest recorded container.

        The container is the object or list around ``path``. The result is the position of the
        value, else of its key; with ``key``, the position of the key, else of the value. Letters
        match in any case, because a manifest may spell fields in any case. None: no container has a
        position either.
        """
        first, second = (self._keys, self._values) if key else (self._values, self._keys)
        for each in _outwards(path):
            known = each if each in first or each in second else self._spelled.get(each.lower())
            if known is not None:
                return first.get(known) or second.get(known)
            first, second = self._keys, self._values  # the key identifies a container
        return None


def place_of(places: SourceMap, problem: Problem) -> Span | None:
    """Return the position of ``problem`` in the text, or None.

    The first words of a problem state whether the problem is in a name or in a value.
    """
    return places.find(problem.at, key=problem.problem.startswith(_OF_NAMES))


class TextLines:
    """The lines of a text, for converting offsets into lines and columns."""

    def __init__(self, text: str) -> None:
        self._starts = [0, *(found.end() for found in re.finditer(r"\r\n|\n|\r", text))]

    def span(self, start: int, end: int) -> Span:
        """Return the position of ``text[start:end]``, which must not cross a line end."""
        line = bisect.bisect_right(self._starts, start)
        return Span(line, start - self._starts[line - 1] + 1, max(1, end - start))


def _outwards(path: str) -> Iterator[str]:
    yield path
    while path:
        found = _STEP.search(path)
        path = path[: found.start()] if found else ""
        yield path

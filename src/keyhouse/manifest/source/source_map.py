"""Where the parts of a manifest's text stand: by path, in lines and columns."""

import bisect
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from keyhouse.base.place import at

_STEP: Final = re.compile(r'\.?[A-Za-z0-9_-]+$|\[(?:[0-9]+|"(?:[^"\\]|\\.)*")\]$', re.ASCII)


class Span(NamedTuple):
    """A piece of one line: ``line`` and ``column`` count from 1, ``width`` is in characters."""

    line: int
    column: int
    width: int = 1


def below(path: str, step: str | int) -> str:
    """Return the path of what is at ``step`` in the object or list at ``path``."""
    piece = at(step)
    return f"{path}.{piece}" if path and not piece.startswith("[") else path + piece


class SourceMap:
    """The spans of paths. Of a repeated key the last one counts, as its value does."""

    def __init__(self) -> None:
        self._keys: dict[str, Span] = {}
        self._values: dict[str, Span] = {}
        self._spelled: dict[str, str] = {}  # by the path in lower case

    def note(self, path: str, span: Span, *, is_key: bool = False) -> None:
        """Say where ``path`` stands: the key of a member, or a value that fits on its line."""
        (self._keys if is_key else self._values)[path] = span
        if is_key:
            self._values.pop(path, None)  # of an earlier member with this key
        self._spelled[path.lower()] = path

    def find(self, path: str, *, key: bool = False) -> Span | None:
        """Return where ``path`` stands, or else the nearest that holds it.

        That is the value where it was noted, else the key; with ``key`` the other way round.
        Problems name fields as they are declared; in a manifest they may be spelled in any case.
        """
        first, second = (self._keys, self._values) if key else (self._values, self._keys)
        for each in _outwards(path):
            known = each if each in first or each in second else self._spelled.get(each.lower())
            if known is not None:
                return first.get(known) or second.get(known)
            first, second = self._keys, self._values  # of what holds it, the key says which it is
        return None


class TextLines:
    """The lines of a text, for turning offsets into lines and columns."""

    def __init__(self, text: str) -> None:
        self._starts = [0, *(found.end() for found in re.finditer(r"\r\n|\n|\r", text))]

    def span(self, start: int, end: int) -> Span:
        """Return the span of ``text[start:end]``, which is within one line."""
        line = bisect.bisect_right(self._starts, start)
        return Span(line, start - self._starts[line - 1] + 1, max(1, end - start))


def _outwards(path: str) -> Iterator[str]:
    yield path
    while path:
        found = _STEP.search(path)
        path = path[: found.start()] if found else ""
        yield path

"""The source map of a JSON text, and the canonical JSON that a YAML text is converted to."""

import json
import re
from collections.abc import Iterator
from typing import Final

from keyhouse.manifest.source.source_map import SourceMap, TextLines, below

__all__ = ["canonical_json", "json_places"]

_WORD: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[][{}:,]|[^][{}:,"\s]+')


class _Open:
    """An object or list that has not ended yet: its path, and which member or item comes next."""

    def __init__(self, path: str, *, is_list: bool) -> None:
        self.path = path
        self.index = 0 if is_list else None
        self.key: str | None = None

    @property
    def next(self) -> str:
        """The path of the value that comes next."""
        return below(self.path, self.key or "" if self.index is None else self.index)

    def step_on(self) -> None:
        """Move to the next item, or expect the next key."""
        if self.index is None:
            self.key = None
        else:
            self.index += 1


def json_places(data: bytes) -> SourceMap:
    """Return where the parts of ``data`` stand; of invalid JSON, the first error as "".

    Never fails, and never goes deeper into the stack than ``data`` is nested by the limits of
    ``keyhouse.wire.json_parser``: look for places after that has read, or refused, the text.
    """
    text = data.decode("utf-8", errors="replace")
    lines, places = TextLines(text), SourceMap()
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        places.note("", lines.span(error.pos, error.pos + 1))
        return places
    except (RecursionError, ValueError):  # over a limit that the reader names
        return places
    for path, start, end in _parts(text):
        places.note(path, lines.span(start, end))
    return places


def _parts(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield path, start and end of each member's key, and of the first word of each item."""
    stack: list[_Open] = []
    for found in _WORD.finditer(text):
        word, inner = found.group(), stack[-1] if stack else None
        if word in {"]", "}"}:
            stack.pop()
        elif word == "," and inner is not None:
            inner.step_on()
        elif inner is not None and inner.index is None and inner.key is None:
            inner.key = json.loads(word)
            yield inner.next, found.start(), found.end()
        else:
            if inner is not None and inner.index is not None:
                yield inner.next, found.start(), found.end()
            if word in {"[", "{"}:
                path = inner.next if inner is not None else ""
                stack.append(_Open(path, is_list=word == "["))


def canonical_json(value: object) -> bytes:
    """Return ``value`` (None, bool, int, str, list, dict) as JSON in UTF-8, in one way only.

    No white space, no line end; members sorted by their names' UTF-16 code units; in strings only
    the double quote, the backslash and control characters escaped. That is RFC 8785, with integers
    written out as they are: those of a manifest have up to 64 bits.
    """
    return json.dumps(_sorted(value), ensure_ascii=False, separators=(",", ":")).encode()


def _sorted(value: object) -> object:
    if isinstance(value, dict):
        names = sorted(value, key=lambda name: str(name).encode("utf-16-be"))
        return {name: _sorted(value[name]) for name in names}
    return [_sorted(item) for item in value] if isinstance(value, list) else value

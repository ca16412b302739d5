"""Rates of words that make prose hard to read, per 1,000 words of docstrings, comments and pages.

Readers decide whether a text is clear; the rates only find places. A relative clause often hides a
missing noun. "what" and "it" replace a noun. "one" and "other" need a noun. Numerals ("one
replica") do not count.
"""

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Final

TARGETS: Final = {"relative": 17, "what": 3, "it": 14, "other": 3}
"""Rates of a well written folder, from python-tuf and h11. A folder may have twice the rates."""

CEILINGS: Final = {name: 2 * target for name, target in TARGETS.items()}

_COUNTED: Final = {
    "relative": {"that", "which", "who", "whom", "whose"},
    "what": {"what"},
    "it": {"it", "its"},
    "other": {"other", "others", "ones"},
}
_WORDS: Final = re.compile(r"[A-Za-z][A-Za-z'-]*")
_BARE_ONE: Final = re.compile(
    r"\bone(?=[.,;:)]| (?:that|which|who|of|is|has|in|for|to|with|from|and|or)\b)"
)
_DIRECTIVE: Final = re.compile(r"#\s*(?:noqa|type:|pragma|fmt:)")

_NO_PROSE: Final = re.compile(  # blocks of code, comments (with generated tables), tables
    r"^ *```.*?^ *```|<!--.*?-->|^ *\|[^\n]*", re.DOTALL | re.MULTILINE
)
_TARGET: Final = re.compile(r"\]\([^)]*\)")
_CODE: Final = re.compile(r"`[^`]*`")
_SENTENCE_END: Final = re.compile(  # a full stop, an empty line, the start of an item or quotation
    r"(?<=[.!?])\s+(?=[A-Z*\"'\[(])|\n\s*\n|\n\s*(?:[-*>#]|\d+\.)\s"
)
_LEAST_WORDS: Final = 3  # in a sentence; fewer words are a heading or a number of a list


def prose_of(source: str) -> Iterator[str]:
    """Yield the docstrings, strings below constants, and comments of a Python source."""
    for node in ast.walk(ast.parse(source)):
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else ():
            match statement:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    yield text
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and not _DIRECTIVE.match(token.string):
            yield token.string


def prose_of_page(page: str) -> str:
    """Return the prose of a Markdown page: no blocks of code, tables, comments or link targets.

    Each code in a line becomes one capital letter, so the code counts as one word and can begin a
    sentence.
    """
    return _CODE.sub("X", _TARGET.sub("]", _NO_PROSE.sub("\n", page)))


def sentence_lengths(prose: str) -> list[int]:
    """Return the number of words of each sentence of at least three words."""
    lengths = [len(_WORDS.findall(sentence)) for sentence in _SENTENCE_END.split(prose)]
    return [length for length in lengths if length >= _LEAST_WORDS]


class Tally:
    """The number of words, and of counted words, in some texts."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self.words = 0
        self._counts: Counter[str] = Counter()
        for text in texts:
            self.add(text)

    def add(self, text: str) -> None:
        """Count the words of ``text``."""
        words = [word.lower() for word in _WORDS.findall(text)]
        self.words += len(words)
        for name, counted in _COUNTED.items():
            self._counts[name] += sum(word in counted for word in words)
        self._counts["other"] += len(_BARE_ONE.findall(text))

    def rates(self) -> dict[str, float]:
        """Return the rate of each kind per 1,000 words."""
        return {name: 1000 * self._counts[name] / max(self.words, 1) for name in _COUNTED}

    def excess(self, ceilings: dict[str, int]) -> dict[str, float]:
        """Return the rates above ``ceilings``, with one decimal."""
        rates = self.rates()
        return {name: round(rates[name], 1) for name in ceilings if rates[name] > ceilings[name]}


def tally_of(files: Iterable[Path]) -> Tally:
    """Return the tally of the prose in Python ``files``."""
    return Tally(text for file in files for text in _prose_in(file))


@cache
def _prose_in(file: Path) -> tuple[str, ...]:
    return tuple(prose_of(file.read_text(encoding="utf-8")))

"""Pages, messages and docstrings are in plain English, without the words of ``docs/words.yaml``."""

import ast
import re
from pathlib import Path

import pytest
import yaml

_ROOT = Path(__file__).parents[3]
_SWAP: dict[str, str] = yaml.safe_load((_ROOT / "docs/words.yaml").read_text("utf-8"))["swap"]
_RULES = [
    (re.compile(rf"\b(?:{word})\b".replace(" ", r"\s+"), re.IGNORECASE), better)
    for word, better in _SWAP.items()
]
_ANY = re.compile("|".join(rule.pattern for rule, _ in _RULES), re.IGNORECASE)
_PLACES = ("*.md", "docs/**/*.md", "deploy/**/*.md", "examples/**/*.md", "tools/*/*.md")
_PAGES = sorted(page for place in _PLACES for page in _ROOT.glob(place))
_SOURCES = [*_ROOT.glob("src/**/*.py"), *_ROOT.glob("simulation/src/**/*.py")]
_NO_PROSE = re.compile(  # blocks of code, generated tables, code in a line, targets of links
    r"^ *```.*?^ *```$|<!-- generated:.*?<!-- end -->|`[^`\n]+`|\]\([^)]*\)",
    re.DOTALL | re.MULTILINE,
)


def _found(text: str) -> list[str]:
    """Return each word of the list in ``text``, with its line and what to write instead."""
    prose = _NO_PROSE.sub(lambda code: "\n" * code[0].count("\n"), text)
    if _ANY.search(prose) is None:  # as in nearly all of thousands of texts
        return []
    return [
        f"line {prose.count(chr(10), 0, hit.start()) + 1}: {' '.join(hit[0].split())!r}: {better}"
        for rule, better in _RULES
        for hit in rule.finditer(prose)
    ]


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: str(page.relative_to(_ROOT)))
def test_page_has_no_word_of_the_list(page: Path) -> None:
    assert _found(page.read_text(encoding="utf-8")) == []


def test_no_text_of_the_program_has_a_word_of_the_list() -> None:
    found = {
        f"{source.relative_to(_ROOT)}:{text.lineno}": _found(text.value)
        for source in _SOURCES
        for text in ast.walk(ast.parse(source.read_bytes()))
        if isinstance(text, ast.Constant) and isinstance(text.value, str)
    }

    assert len(found) > len(_SOURCES)  # it has looked at them
    assert {place: words for place, words in found.items() if words} == {}


def test_no_name_of_a_test_has_a_word_of_the_list() -> None:
    named = re.compile(r"^ *(?:async )?def (test_\w+)", re.MULTILINE)
    names = {
        f"{source.relative_to(_ROOT)}: {name}": _found(name.replace("_", " "))
        for source in (_ROOT / "tests").rglob("test_*.py")
        for name in named.findall(source.read_text(encoding="utf-8"))
    }

    assert len(names) > len(_PAGES)  # it has looked at them
    assert {name: words for name, words in names.items() if words} == {}


def test_words_are_found_with_their_line_and_code_is_left_alone() -> None:
    text = "# A page\n\nIt is made\nanew, and goes\non.\n\n```sh\necho anew\n```\n`anew`\n"

    assert _found(text) == ["line 4: 'anew': again", "line 4: 'goes on': continue"]

"""Links lead to files and headings that exist; commands that are shown can be typed."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import yaml
from support.process.command_tree import below, leaves

from keyhouse.cli.commands import ROOT
from keyhouse.launcher.settings import RUN_SETTINGS
from keyhouse.server.process.settings import SETTINGS

_ROOT = Path(__file__).parent.parent.parent
_PLACES = ("*.md", "docs/**/*.md", "examples/**/*.md", "changelog.d/README.md")
_PAGES = sorted(page for place in _PLACES for page in _ROOT.glob(place))
_FENCED = re.compile(r"^```([a-z]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def _name(path: Path) -> str:
    return str(path.relative_to(_ROOT))


@pytest.mark.parametrize("page", _PAGES, ids=_name)
def test_links_lead_to_files_of_the_repository(page: Path) -> None:
    prose = _FENCED.sub("", page.read_text(encoding="utf-8"))
    targets = [target.partition("#")[0] for target in _LINK.findall(prose)]

    missing = [
        target
        for target in targets
        if not target.startswith("https://") and not (page.parent / target).resolve().exists()
    ]

    assert missing == []


def test_every_page_can_be_reached_from_the_readme() -> None:
    seen: set[Path] = set()
    waiting = [_ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        seen.add(page)
        for target in _LINK.findall(page.read_text(encoding="utf-8")):
            path = (page.parent / target.partition("#")[0]).resolve()
            if path.suffix == ".md" and path not in seen and path.exists():
                waiting.append(path)

    assert [_name(page) for page in _PAGES if page not in seen] == []


@pytest.mark.parametrize(
    "room", ["how-to/index", "explanation/index", "reference/README", "decisions/README"]
)
def test_every_page_of_a_room_is_listed_where_it_begins(room: str) -> None:
    first = _ROOT / "docs" / f"{room}.md"
    listed = set(_LINK.findall(first.read_text(encoding="utf-8")))
    others = {page.name for page in first.parent.glob("*.md")} - {first.name}

    assert others - listed == set()


def _commands() -> Iterator[tuple[str, list[str]]]:
    for page in _PAGES:
        for language, text in _FENCED.findall(page.read_text(encoding="utf-8")):
            if language == "sh":
                for line in text.replace("\\\n", " ").splitlines():
                    words = shlex.split(line, comments=True)
                    if words:
                        yield _name(page), words


_SHOWN = list(_commands())
_WITH_SETTINGS = {"serve": SETTINGS, "run": RUN_SETTINGS}


@pytest.mark.parametrize(
    ("page", "words"), _SHOWN, ids=[f"{page}: {' '.join(words)[:40]}" for page, words in _SHOWN]
)
def test_command_that_is_shown_exists(page: str, words: list[str]) -> None:
    del page
    program = words[0]
    if program.startswith(("scripts/", "examples/")):
        assert (_ROOT / program).stat().st_mode & 0o100
    elif Path(program).name == "keyhouse":
        _require_flags(words[1:])
    elif Path(program).name == "python" and words[1].startswith("tests/"):
        assert (_ROOT / words[1]).is_file()


def _require_flags(words: list[str]) -> None:
    """Check subcommands and flags of `keyhouse` against its own tables."""
    words = words[: words.index("--")] if "--" in words else words  # then come a program's own
    flags = {word for word in words if word.startswith("--")}
    if words[0] in _WITH_SETTINGS:
        assert flags <= {setting.flag for setting in _WITH_SETTINGS[words[0]]}
        return
    command: click.Command = ROOT
    for word in words:
        if not isinstance(command, click.Group):
            break
        command = below(command)[word]
    assert flags <= {flag for option in command.params for flag in option.opts}


def test_every_script_is_mentioned() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in _PAGES)
    scripts = [path.name for path in sorted((_ROOT / "scripts").iterdir()) if path.is_file()]

    assert [name for name in scripts if f"scripts/{name}" not in text] == []


def test_every_command_has_a_row_in_the_reference() -> None:
    page = (_ROOT / "docs/reference/commands.md").read_text(encoding="utf-8")
    shown = [f"keyhouse {words}" for words, leaf in leaves().items() if not leaf.command.hidden]

    assert [words for words in shown if f"| [`{words}`](#" not in page] == []


def test_words_of_the_search_belong_to_pages_that_exist() -> None:
    words = yaml.safe_load((_ROOT / "docs/synonyms.yaml").read_text(encoding="utf-8"))

    assert [page for page in words if not (_ROOT / f"{page}.md").is_file()] == []
    assert "disaster recovery" in words["docs/how-to/recovery"]
    assert "MRENCLAVE" in words["docs/reference/glossary"]

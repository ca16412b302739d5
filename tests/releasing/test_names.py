"""No text tells anybody to install Keyhouse from an index: strangers may have the names."""

import re
import subprocess

import pytest
from support.distributions import ROOT, TABLE

_INSTALL = re.compile(
    r"(?:pip3? install|pipx (?:install|run)|uvx|uv (?:tool install|add|pip install)|poetry add)"
    r"(?P<words>[^\n]*)"
)
_NAME = re.compile(r"(?<![\w./=-])keyhouse(?:-[a-z]+)?(?![\w./-])")


def _commands(text: str) -> list[str]:
    """Return the commands in ``text`` that would fetch a distribution of Keyhouse by its name."""
    found = []
    for match in _INSTALL.finditer(text.replace("\\\n", " ")):
        words = match["words"]
        local = "--no-index" in words or "--from" in words
        if not local and _NAME.search(words.partition("`")[0]):
            found.append(match[0])
    return found


def test_no_text_installs_keyhouse_by_its_name() -> None:
    words = ["git", "ls-files", "*.md", "*.py", "*.toml", "*.json", "scripts/*", "deploy/*"]
    listed = subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True)
    own = "tests/releasing/test_names.py"
    found = {
        name: commands
        for name in listed.stdout.splitlines()
        if name != own
        and (ROOT / name).is_file()  # a link to a folder is listed, too
        and (commands := _commands((ROOT / name).read_text(encoding="utf-8")))
    }
    assert found == {}


@pytest.mark.parametrize(
    "text",
    [
        "pip install keyhouse",
        "pip install 'keyhouse[dev]'",
        "uvx keyhouse dev",
        "uv add keyhouse-base",
    ],
)
def test_such_commands_are_found(text: str) -> None:
    assert _commands(text) == [text]


@pytest.mark.parametrize(
    "text",
    ["pip install '.[dev]' ./simulation", "pip install --no-index --find-links wheels keyhouse"],
)
def test_local_installations_are_left_alone(text: str) -> None:
    assert _commands(text) == []


def test_the_names_to_reserve_are_documented() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert [name for name in TABLE.rows if f"`{name}`" not in page] == []

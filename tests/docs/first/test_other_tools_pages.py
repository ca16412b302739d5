"""The pages for users of other tools: each printed command works beside ``keyhouse dev``."""

import re
from pathlib import Path
from typing import Final

import pytest
from support.process.command import run
from support.process.dev import walk_with_dev

_PAGES: Final = Path(__file__).parents[3] / "docs/how-to"
_COMMAND: Final = re.compile(r"`keyhouse ([a-z][a-z -]*[a-z])[^`]*`")
_OTHER_WORDS: Final = frozenset({"kv get"})  # the page names the mistake

pytestmark = pytest.mark.acceptance


def _page(name: str) -> str:
    return (_PAGES / f"for-users-of-{name}.md").read_text(encoding="utf-8")


def test_commands_for_users_of_vault_work(tmp_path: Path) -> None:
    printed = walk_with_dev(_page("vault"), tmp_path)
    assert "value        correct horse\n" in printed
    assert re.search(r"^greeting +plain +by users", printed, re.MULTILINE)
    hint = run("kv", "get", "greeting").err
    assert "use keyhouse secret get NAME" in hint


def test_commands_for_users_of_kubectl_work(tmp_path: Path) -> None:
    printed = walk_with_dev(_page("kubectl"), tmp_path)
    assert "~ token.Size: 128 -> 256" in printed
    assert "1 value lost" in printed
    assert printed.count("nothing to change; nothing was sent") == 1


def test_commands_for_users_of_step_ca_work(tmp_path: Path) -> None:
    printed = walk_with_dev(_page("step-ca"), tmp_path)
    assert "notAfter=" in printed
    assert re.search(r"^issuer=.*", printed, re.MULTILINE)


@pytest.mark.parametrize("name", ["vault", "kubectl", "step-ca"])
def test_commands_in_the_tables_exist(name: str) -> None:
    words = set(_COMMAND.findall(_page(name))) - _OTHER_WORDS
    assert words
    for each in words:
        ended = run(*each.split(), "--help")
        assert ended.code == 0, f"{each}: {ended.err}"

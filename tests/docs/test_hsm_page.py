"""The commands of the page on tokens do what it says, with a token in software."""

from pathlib import Path

import pytest
from support.process.dev import walk_with_dev
from support.process.softhsm import needs_engine

_PAGE = Path(__file__).parent.parent.parent / "docs/how-to/hsm-identities.md"

pytestmark = [pytest.mark.acceptance, needs_engine]


def test_every_command_of_the_page_on_tokens_works(tmp_path: Path) -> None:
    printed = walk_with_dev(_PAGE.read_text(encoding="utf-8"), tmp_path)

    assert "user=alice  secret=greeting" in printed
    assert "greeting is hello\n" in printed
    assert "73910284" not in printed

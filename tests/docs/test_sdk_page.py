"""The programs of the SDK's page do what it says, against a real coordinator."""

from pathlib import Path

import pytest
from support.process.dev import walk_with_dev

_PAGE = Path(__file__).parent.parent.parent / "docs/how-to/use-the-sdk.md"

pytestmark = pytest.mark.acceptance


def test_every_program_of_the_sdk_page_works(tmp_path: Path) -> None:
    printed = walk_with_dev(_PAGE.read_text(encoding="utf-8"), tmp_path)

    assert "phase 3\n" in printed
    assert "greeting is hello\n" in printed
    assert "Secret set dev\n" in printed
    assert "platform is UpToDate\n" in printed
    assert "refused: forbidden\n" in printed
    assert "from the context: good morning\n" in printed

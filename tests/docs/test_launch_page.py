"""Launching a workload does what the page says, against a real coordinator."""

import re
from pathlib import Path

import pytest
from support.process.dev import walk_with_dev

_PAGE = Path(__file__).parent.parent.parent / "docs/how-to/launch-a-workload.md"

pytestmark = pytest.mark.acceptance


def test_every_command_of_the_page_works(tmp_path: Path) -> None:
    printed = walk_with_dev(_PAGE.read_text(encoding="utf-8"), tmp_path)

    assert "a token of 128 bits and a TLS identity for web.example.com" in printed
    assert re.search(r"-rw------- .* tls\.key", printed)
    assert "token: 32 digits" in printed
    assert 'no marble type "db"' in printed
    assert printed.endswith("exit code 1\n")
    assert "NOT verified" not in printed

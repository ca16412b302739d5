"""Rotating keys, secrets and users does what the page says, against a real coordinator."""

import json
from base64 import b64decode
from pathlib import Path

import pytest
from support.process.dev import walk_with_dev

_PAGE = Path(__file__).parent.parent.parent / "docs/how-to/rotate.md"

pytestmark = pytest.mark.acceptance


def test_every_command_of_the_rotate_page_works(tmp_path: Path) -> None:
    printed = walk_with_dev(_PAGE.read_text(encoding="utf-8"), tmp_path)

    before, renewed, rotated = (
        json.loads((tmp_path / f"{name}.json").read_text())["secrets"]
        for name in ("before", "renewed", "rotated")
    )
    assert before["master"] == renewed["master"] != rotated["master"]
    assert len({found["site"]["cert"] for found in (before, renewed, rotated)}) == 3
    password = json.loads((tmp_path / "password-now.json").read_text())["secrets"]["password"]
    assert b64decode(password["private"]) == b"correct horse"
    assert printed.endswith("exit code 1\n")
    assert not (tmp_path / "gone.json").exists()

"""An auditor who has the file and what to trust, and nothing else, can do what the page says."""

import hashlib
import shutil
from pathlib import Path

import pytest
from support.evidence import GOLDEN
from support.process.page import walk

_PAGE = Path(__file__).parent.parent.parent / "docs/how-to/audit-a-deployment.md"

_DIGITS = 64

pytestmark = pytest.mark.acceptance


def test_every_command_of_the_audit_page_works(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN, tmp_path, dirs_exist_ok=True)

    printed = walk(_PAGE.read_text(encoding="utf-8"), tmp_path)

    assert "PROVEN" in printed
    assert "in force, agreed to by alice, bob (2 of 2 signed)" in printed
    assert "liars borne" in printed
    assert "Not proven" in (tmp_path / "report.html").read_text()
    objects = [each for each in tmp_path.iterdir() if len(each.name) == _DIGITS]
    assert len(objects) > 2
    assert all(hashlib.sha256(each.read_bytes()).hexdigest() == each.name for each in objects)

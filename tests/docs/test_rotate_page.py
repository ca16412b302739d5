"""Rotating keys, secrets and users does what the page says, against a real coordinator."""

import json
from base64 import b64decode
from pathlib import Path

import pytest
from support.process.page import walk
from support.process.server import Server

_PAGE = Path(__file__).parent.parent.parent / "docs/how-to/rotate.md"

pytestmark = pytest.mark.acceptance


def test_every_command_of_the_rotate_page_works(tmp_path: Path) -> None:
    server = Server(tmp_path / "keyhouse-data")
    page = _PAGE.read_text(encoding="utf-8").replace("127.0.0.1:4433", f"127.0.0.1:{server.port}")

    with server:
        printed = walk(page, tmp_path)

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

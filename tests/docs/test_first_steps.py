"""The first steps do what they say: each block is run, against a real coordinator."""

from pathlib import Path

import pytest
from support.process.page import walk
from support.process.server import Server

_PAGE = Path(__file__).parent.parent.parent / "docs/how-to/first-steps.md"

pytestmark = pytest.mark.acceptance


def test_every_block_of_the_first_steps_works(tmp_path: Path) -> None:
    server = Server(tmp_path / "keyhouse-data")
    page = _PAGE.read_text(encoding="utf-8").replace("127.0.0.1:4433", f"127.0.0.1:{server.port}")
    verify, heading, _ = page.partition("## Write a manifest")
    assert heading

    with server:
        printed = walk(page, tmp_path)

        assert "ready to accept a manifest" in printed
        assert "greeting is hello" in printed
        assert "Initial manifest set" in printed
        assert "Secret set" in printed

    with server:
        again = walk("```sh\npython use.py\n```", tmp_path)
        assert "master has 256 bits" in again

    (tmp_path / "keyhouse-data/sealed_key").unlink()
    with server:
        assert "recovery mode" in walk(verify, tmp_path)

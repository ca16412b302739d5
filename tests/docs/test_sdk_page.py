"""The programs of the SDK's page do what it says, against a real coordinator."""

from pathlib import Path

import pytest
from support.process.page import walk
from support.process.server import Server

_PAGE = Path(__file__).parent.parent.parent / "docs/how-to/use-the-sdk.md"

pytestmark = pytest.mark.acceptance


def test_every_program_of_the_sdk_page_works(tmp_path: Path) -> None:
    server = Server(tmp_path / "keyhouse-data")
    page = _PAGE.read_text(encoding="utf-8").replace("127.0.0.1:4433", f"127.0.0.1:{server.port}")

    with server:
        printed = walk(page, tmp_path)

    assert "phase 3\n" in printed
    assert "greeting is hello\n" in printed
    assert "Secret set alice\n" in printed
    assert "platform is UpToDate\n" in printed
    assert "refused: forbidden\n" in printed
    assert "from the context: hello\n" in printed

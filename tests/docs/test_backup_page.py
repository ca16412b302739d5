"""The page on backups does what it says: its commands are run against a real coordinator."""

from pathlib import Path

import pytest
from support.process.page import walk
from support.process.server import Server
from support.samples.deployment import manifest

_PAGE = Path(__file__).parent.parent.parent / "docs/how-to/back-up-and-restore.md"

pytestmark = pytest.mark.acceptance


def test_every_command_of_the_backup_page_works(tmp_path: Path) -> None:
    server = Server(tmp_path / "keyhouse-data")
    with server, server.client() as client:
        assert client.set_manifest(manifest()).status == 200
        printed = walk(_PAGE.read_text(encoding="utf-8"), tmp_path)
        state = client.get("/api/v2/status").headers["keyhouse-state"]

    assert printed.count(f"state     {state}") == 4
    assert "backup          backup-monday" in printed
    assert sorted(each.name for each in tmp_path.iterdir() if each.is_dir()) == [
        "backup-monday",
        "keyhouse-data",
        "new-data",
    ]

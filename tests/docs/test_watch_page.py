"""The page on watching the log does what it says: its commands run against a real coordinator."""

import re
from pathlib import Path

import pytest
from support.process.command import run
from support.process.page import walk
from support.process.server import Server
from support.samples.deployment import manifest

_PAGE = Path(__file__).parent.parent.parent / "docs/how-to/watch-the-log.md"

pytestmark = pytest.mark.acceptance


def test_every_command_of_the_watch_page_works(tmp_path: Path) -> None:
    server = Server(tmp_path / "keyhouse-data")
    follow, stopped, restore = _PAGE.read_text(encoding="utf-8").partition("## Restore")
    simulation = server.data / "simulation"
    with server, server.client() as client:
        assert client.set_manifest(manifest()).status == 200
        added = run(
            *("context", "add", "local", "--address", f"127.0.0.1:{server.port}"),
            *("--attestation", str(simulation / "attestation.json")),
            *("--simulation-root", str(simulation / "root.pem")),
            env={"HOME": str(tmp_path), "XDG_STATE_HOME": ""},
        )
        assert added.code == 0, added.err
        printed = walk(follow, tmp_path)
    assert " 1 manifest-set: first manifest " in printed
    assert re.search(r"^leaves +3\nnew +3$", printed, re.MULTILINE)
    assert stopped
    assert re.search(r"^restored +0 tiles, 0 objects$", walk(restore, tmp_path), re.MULTILINE)

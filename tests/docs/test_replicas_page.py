"""The page on several coordinators does what it says about copies: its commands are run."""

import asyncio
import re
from pathlib import Path

import pytest
from support.peers.postgres import PASSWORD, PostgresServer
from support.process.page import walk
from support.process.server import Server
from support.samples.deployment import manifest

_PAGE = Path(__file__).parent.parent.parent / "docs/how-to/run-several-coordinators.md"
_COMMAND = re.compile(r"^\$ (keyhouse (?:store|backup) (?:.*\\\n)*.*)$", re.MULTILINE)

pytestmark = pytest.mark.acceptance


def test_a_state_goes_to_the_database_is_backed_up_and_comes_back(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    url = postgres.url(asyncio.run(postgres.database(empty=True))).reveal().decode()
    (tmp_path / "password").write_text(PASSWORD)
    page = _PAGE.read_text(encoding="utf-8")
    here = page.replace(
        "postgresql://keyhouse@db.example/keyhouse", f"'{url.replace(f':{PASSWORD}', '')}'"
    )
    server = Server(tmp_path / "keyhouse-data")
    with server, server.client() as client:
        assert client.set_manifest(manifest()).status == 200

    printed = walk("".join(f"```sh\n{each}\n```\n" for each in _COMMAND.findall(here)), tmp_path)

    told = re.findall(r"^(moved|archived|backup|state) ", printed, re.MULTILINE)
    assert told == ["moved", "archived", "backup", "state", "moved", "state"]
    assert "created the schema keyhouse" in printed
    with server, server.client() as client:
        assert client.get("/api/v2/status").data["code"] == 3

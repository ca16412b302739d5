"""The page on witnesses does what it says: its commands run against a coordinator and witnesses."""

import re
from contextlib import ExitStack
from pathlib import Path

import pytest
from support.cosigner import Cosigner
from support.peers.witness import Witness, policy
from support.process.command import run
from support.process.page import walk
from support.process.server import Server
from support.samples.deployment import manifest
from support.witnessed import until_held, until_served

_PAGE = Path(__file__).parent.parent.parent / "docs/how-to/run-with-witnesses.md"

pytestmark = pytest.mark.acceptance


def test_every_command_of_the_witness_page_works(tmp_path: Path) -> None:
    server = Server(tmp_path / "keyhouse-data")
    begin, status = _PAGE.read_text(encoding="utf-8").split("Then\nthis prints", 1)
    simulation = server.data / "simulation"
    with ExitStack() as stack:
        cosigners = [Cosigner.ed25519(f"{name}.example") for name in "abc"]
        witnesses = [stack.enter_context(Witness(each)) for each in cosigners]
        rules = policy(witnesses, 2)
        (tmp_path / "witnesses.policy").write_text(rules)
        raw = manifest(Transparency={"Witnesses": rules, "Serve": "Witnessed"})
        (tmp_path / "manifest.json").write_bytes(raw)
        stack.enter_context(server)
        added = run(
            *("context", "add", "local", "--address", f"127.0.0.1:{server.port}"),
            *("--attestation", str(simulation / "attestation.json")),
            *("--simulation-root", str(simulation / "root.pem")),
            env={"HOME": str(tmp_path), "XDG_STATE_HOME": ""},
        )
        assert added.code == 0, added.err
        printed = walk(begin, tmp_path)
        assert re.search(r"^liars borne +0\noutages borne +1$", printed, re.MULTILINE)
        until_held(server, "witnesses have not cosigned the start")
        with server.client() as client:
            key = client.get("/api/v2/log/key").data["verifierKey"]
        assert key in printed
        for witness in witnesses:
            witness.trust(key)
        until_served(server)
        assert "running: workloads" in walk(status, tmp_path)

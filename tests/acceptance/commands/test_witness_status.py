"""The status and the doctor show witnesses, their last cosignature and the rest of the lease."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from support.cosigner import Cosigner
from support.peers.witness import Answered, Witness, policy
from support.process.command import Ended, run
from support.process.server import Server
from support.samples.deployment import manifest
from support.witnessed import until_held, until_served

from keyhouse.manifest.model import LEASE_OPERATIONS, LEASE_SECONDS

pytestmark = pytest.mark.acceptance


@pytest.fixture(name="witnesses")
def _witnesses() -> Iterator[list[Witness]]:
    with ExitStack() as stack:
        cosigners = (Cosigner.ed25519("a.example/w"), Cosigner.mldsa44("b.example/w"))
        absent = Cosigner.ed25519("c.example/w")
        yield [stack.enter_context(Witness(each)) for each in (*cosigners, absent)]


def begin(server: Server, witnesses: list[Witness], **more: object) -> None:
    """Set a manifest with these witnesses, of which two are enough. All know the key."""
    given = {"Witnesses": policy(witnesses, 2), "Serve": "Witnessed", **more}
    with server.client() as client:
        assert client.set_manifest(manifest(Transparency=given)).status == 200
        key = client.get("/api/v2/log/key").data["verifierKey"]
    for witness in witnesses:
        witness.trust(key)


def called(server: Server, *words: str) -> Ended:
    machine = server.data / "simulation"
    trust = ("--attestation", str(machine / "attestation.json"))
    root = ("--simulation-root", str(machine / "root.pem"), "--memory", "none")
    address = f"127.0.0.1:{server.port}"
    ended = run(words[0], address, *trust, *root, *words[1:], env={"HOME": str(server.data)})
    assert ended.code == 0, ended.err
    return ended


def rows(ended: Ended) -> dict[str, str]:
    """Return the rows of a status, by name."""
    lines = (line.partition("  ") for line in ended.out.splitlines())
    return {name.strip(): value.strip() for name, _, value in lines}


def findings(server: Server) -> dict[str, Any]:
    found = json.loads(called(server, "doctor", "--json").out)["findings"]
    return {each["check"]: each for each in found}


def test_the_status_shows_who_cosigned_last_and_the_rest_of_the_lease(
    tmp_path: Path, witnesses: list[Witness]
) -> None:
    server = Server(tmp_path / "data")
    witnesses[2].instead = Answered(503)
    with server:
        begin(server, witnesses)
        until_served(server)

        shown, found = (
            rows(called(server, "status")),
            json.loads(called(server, "status", "--json").out),
        )
        looked = findings(server)

    assert shown["witnesses"].startswith("W0, W1 have cosigned ")
    assert shown["witnesses"].endswith(" entries, a quorum; missing: W2")
    assert shown["last cosignature"].endswith(" UTC")
    assert shown["lease"].endswith(" operations left, then held")
    seen = found["witnesses"]
    assert [each["witness"] for each in seen["cosignatures"]] == ["W0", "W1", "W2"]
    assert [each["time"] is None for each in seen["cosignatures"]] == [False, False, True]
    assert (seen["quorum"], seen["enforced"]) == (True, True)
    assert seen["granted"] == {"seconds": LEASE_SECONDS, "operations": LEASE_OPERATIONS}
    assert 0 < seen["lease"]["seconds"] <= LEASE_SECONDS
    assert looked["witnesses"]["level"] == "warning"
    assert (looked["last cosignature"]["level"], looked["lease"]["level"]) == ("ok", "ok")


def test_a_held_coordinator_shows_that_no_lease_is_left(
    tmp_path: Path, witnesses: list[Witness]
) -> None:
    server = Server(tmp_path / "data")
    for witness in witnesses:
        witness.instead = Answered(503)
    with server:
        begin(server, witnesses)
        until_held(server, "witnesses have not cosigned the start")

        shown, looked = rows(called(server, "status")), findings(server)

    assert shown["witnesses"].startswith("none has cosigned the ")
    assert "last cosignature" not in shown
    assert shown["lease"] == "ended"
    assert (looked["witnesses"]["level"], looked["lease"]["level"]) == ("warning", "warning")


def test_a_lease_that_is_not_enforced_says_so(tmp_path: Path, witnesses: list[Witness]) -> None:
    server = Server(tmp_path / "data")
    with server:
        begin(server, witnesses, Serve="Always")
        until_served(server)

        # It serves before a quorum has cosigned its start, which grants the first lease.
        while (shown := rows(called(server, "status")))["lease"].startswith("ended"):
            pass

    assert shown["lease"].endswith("then it continues to serve (Serve: Always)")
    assert "Serve: Always" in shown["rollback"]


def test_a_manifest_without_witnesses_shows_none(tmp_path: Path) -> None:
    server = Server(tmp_path / "data")
    with server:
        with server.client() as client:
            assert client.set_manifest(manifest()).status == 200
            assert "lease" not in client.get("/api/v2/status").data
        found = json.loads(called(server, "status", "--json").out)

    assert found["witnesses"] is None

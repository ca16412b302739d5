"""Clients and the line of the root, against real coordinators: the SDK and the commands."""

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
from support.peers.sdk import trust_in_server
from support.process.command import Ended, run
from support.process.server import Server
from support.samples.deployment import user
from support.samples.recovery import holder, recoverable
from support.samples.updates import Api

from keyhouse.client import CheckName, Coordinator, FileMemory, Trust, TrustError

pytestmark = pytest.mark.acceptance

FIRST = recoverable([holder("rk0"), holder("rk1")])
SECOND = recoverable([holder("rk0"), holder("rk1"), holder("rk2")], 2)


def hex_of(manifest: bytes) -> str:
    return hashlib.sha256(manifest).hexdigest()


class Deployment:
    """A coordinator that a user began with ``FIRST``, and a user who looks at it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.server = Server(folder / "data")
        self.memory = FileMemory(folder / "known.json")

    def trust(self, **rules: Any) -> Trust:
        trust = trust_in_server(self.server)
        return Trust(
            expected=trust.expected,
            collateral=trust.collateral,
            root_ca_der=trust.root_ca_der,
            **rules,
        )

    def connect(self, **rules: Any) -> Coordinator:
        address = f"127.0.0.1:{self.server.port}"
        return Coordinator.connect(address, self.trust(**rules), memory=self.memory)

    def update(self, manifest: bytes) -> None:
        with self.server.client(user("admin")) as admin:
            assert Api(2).update(admin, manifest).status == 200

    def type(self, *words: str, memory: str = "typed.json") -> Ended:
        """Run a command on this coordinator; its last words are options."""
        simulation = self.folder / "data" / "simulation"
        trust = ("--attestation", str(simulation / "attestation.json"))
        root = ("--simulation-root", str(simulation / "root.pem"))
        address = f"127.0.0.1:{self.server.port}"
        command, options = words[: 1 + (words[0] == "trust")], words[1 + (words[0] == "trust") :]
        return run(
            *command, address, *trust, *root, "--memory", memory, *options, folder=self.folder
        )

    def status(self, *options: str, **more: str) -> dict[str, Any]:
        """Return what ``keyhouse status --json`` prints."""
        ended = self.type("status", *options, "--json", **more)
        assert ended.code == 0, ended
        found = json.loads(ended.out)
        assert isinstance(found, dict)
        return found


def done(found: dict[str, Any]) -> dict[str, bool]:
    return {each["name"]: each["done"] for each in found["checks"]}


def test_who_began_the_deployment_needs_no_option(tmp_path: Path) -> None:
    deployment = Deployment(tmp_path)
    with deployment.server:
        with deployment.connect(first_manifest=FIRST) as began:
            assert began.trusted.line is None
            began.set_manifest(FIRST)
        with deployment.connect(manifests="all") as session:
            line = session.trusted.line
            assert line is not None
            assert line.manifests == (hex_of(FIRST),)
            first = session.trusted.check(CheckName.FIRST_MANIFEST)
            assert first is not None
            assert first.done
            assert "the remembered manifest" in first.text
        deployment.update(SECOND)
        with deployment.connect() as session:
            line = session.trusted.line
            assert line is not None
            assert line.manifests == (hex_of(FIRST), hex_of(SECOND))
            assert session.manifest().fingerprint == line.manifests[-1]
        with pytest.raises(TrustError, match=f"{hex_of(SECOND)}.*keyhouse trust accept"):
            deployment.connect(manifests="all")


def test_status_says_of_each_check_whether_it_was_done(tmp_path: Path) -> None:
    deployment = Deployment(tmp_path)
    with deployment.server, deployment.server.client() as client:
        assert done(deployment.status())["line"] is False
        assert client.set_manifest(FIRST).status == 200
        found = deployment.status()
        assert found["manifests"] == [hex_of(FIRST)]
        assert done(found) == {
            "code": True,
            "line": True,
            "origin": True,
            "first-manifest": False,
            "manifests": False,
            "memory": False,
            "witnesses": False,
        }
        again = deployment.status("--first-manifest", hex_of(FIRST))
        assert done(again)["first-manifest"]
        assert done(again)["memory"]
        rows = dict(
            re.split(" {2,}", row.replace("manifest ", "manifest  "), maxsplit=1)
            for row in deployment.type("status").out.splitlines()
        )
        assert rows["first manifest"] == hex_of(FIRST)
        assert rows["since then"] == "0 manifests"
        assert rows["holders"] == "2 of 2: rk0, rk1"
        assert rows["other code"] == "none"
        assert rows["check witnesses"].startswith("not done")


def test_another_first_manifest_is_a_failure_of_trust(tmp_path: Path) -> None:
    deployment = Deployment(tmp_path)
    (tmp_path / "first.json").write_bytes(FIRST)
    (tmp_path / "second.json").write_bytes(SECOND)
    with deployment.server, deployment.server.client() as client:
        assert client.set_manifest(FIRST).status == 200
        deployment.update(SECOND)
        deployment.status("--first-manifest", "first.json")
        refused = deployment.type("status", "--first-manifest", "second.json", memory="none")
        assert refused.code == 4
        assert hex_of(SECOND) in refused.err


def test_status_says_once_who_else_can_know_the_keys(tmp_path: Path) -> None:
    deployment = Deployment(tmp_path)
    with deployment.server, deployment.server.client() as client:
        assert client.set_manifest(FIRST).status == 200
        assert deployment.status()["new"] == []
        deployment.update(SECOND)
        assert deployment.status()["new"] == [f"{hex_of(SECOND)}  adds the holder rk2"]
        assert deployment.status()["new"] == []


def test_a_user_accepts_manifests_that_were_in_force(tmp_path: Path) -> None:
    deployment = Deployment(tmp_path)
    strict = ("status", "--accepted-manifests-only")
    with deployment.server, deployment.server.client() as client:
        assert client.set_manifest(FIRST).status == 200
        assert deployment.type(*strict).code == 4
        accepted = deployment.type("trust", "accept", "--json")
        assert json.loads(accepted.out)["accepted"] == [hex_of(FIRST)]
        assert deployment.type(*strict).code == 0
        deployment.update(SECOND)
        refused = deployment.type(*strict)
        assert refused.code == 4
        assert "keyhouse trust accept" in refused.err
        accepted = deployment.type("trust", "accept")
        assert accepted.code == 0
        assert hex_of(SECOND) in accepted.out
        assert "adds the holder rk2" in accepted.out
        assert deployment.type(*strict).code == 0
        assert "nothing new" in deployment.type("trust", "accept").out


def test_an_older_copy_shows_fewer_manifests(tmp_path: Path) -> None:
    """Its log has overtaken what is remembered, but its line is shorter."""
    deployment = Deployment(tmp_path)
    with deployment.server, deployment.server.client() as client:
        assert client.set_manifest(FIRST).status == 200
        deployment.update(SECOND)
        deployment.status()
        seen = json.loads((tmp_path / "typed.json").read_bytes())
        [line] = seen["lines"].values()
        line["number"] += 1
        line["last"] = "ab" * 32
        (tmp_path / "typed.json").write_text(json.dumps(seen))
        refused = deployment.type("status")
        assert refused.code == 4
        assert "rollback: " in refused.err


def test_a_context_keeps_the_first_manifest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = {"XDG_CONFIG_HOME": str(tmp_path / "config")}
    monkeypatch.setenv("XDG_CONFIG_HOME", config["XDG_CONFIG_HOME"])
    deployment = Deployment(tmp_path)
    (tmp_path / "second.json").write_bytes(SECOND)
    simulation = tmp_path / "data" / "simulation"
    with deployment.server, deployment.server.client() as client:
        assert client.set_manifest(FIRST).status == 200
        for name, manifest in (("right", hex_of(FIRST)), ("wrong", "second.json")):
            added = run(
                *("context", "add", name, "--address", f"127.0.0.1:{deployment.server.port}"),
                *("--attestation", str(simulation / "attestation.json")),
                *("--simulation-root", str(simulation / "root.pem")),
                *("--memory", str(tmp_path / "known.json"), "--first-manifest", manifest),
                folder=tmp_path,
                env=config,
            )
            assert added.code == 0, added
        assert hex_of(SECOND) in run("context", "show", "wrong", folder=tmp_path, env=config).out
        assert run("status", "--context", "right", folder=tmp_path, env=config).code == 0
        assert run("status", "--context", "wrong", folder=tmp_path, env=config).code == 4
        with Coordinator.from_context("right") as session:
            assert session.trusted.line is not None
        with pytest.raises(TrustError, match="began with the manifest"):
            Coordinator.from_context("wrong")

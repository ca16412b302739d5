"""The doctor and a real coordinator, with a real PCCS."""

import json
from pathlib import Path
from typing import Any

import pytest
from support.process.command import run
from support.process.server import Server, free_port
from support.samples.deployment import user

from keyhouse.attestation import read_collateral
from keyhouse.coordinator import Phase
from keyhouse_simulation.pccs import PccsServer, ServedCollateral

pytestmark = pytest.mark.acceptance


def looked_at(server: Server, folder: Path, *words: str, port: int = 0) -> dict[str, Any]:
    """Return what is found about ``server``, by check, and the exit code."""
    machine = server.data / "simulation"
    trust = ("--attestation", str(machine / "attestation.json"), "--simulation-root")
    ended = run(
        "doctor",
        f"127.0.0.1:{port or server.port}",
        *trust,
        str(machine / "root.pem"),
        "--memory",
        "none",
        "--json",
        *words,
        env={"HOME": str(folder)},
        folder=folder,
    )
    found = {each["check"]: each for each in json.loads(ended.out)["findings"]}
    return {**found, "code": ended.code}


def test_a_coordinator_that_is_well(running: Server, tmp_path: Path) -> None:
    found = looked_at(running, tmp_path, "--data-dir", str(running.data))

    assert found["code"] == 0
    assert "SIMULATED" in found["coordinator"]["found"]
    for check in ("state", "its version", "root certificate", "intermediate certificate"):
        assert found[check]["level"] == "ok", found[check]
    assert "no witnesses: " in found["rollback"]["found"]
    assert found["state directory"]["found"] != "private, and not in use"


def test_a_coordinator_that_cannot_be_reached_or_lost_its_state(
    servers: dict[Phase, Server], tmp_path: Path
) -> None:
    lost = servers[Phase.RECOVERY]

    assert looked_at(lost, tmp_path)["state"]["fix"] == "keyhouse recover"
    away = looked_at(lost, tmp_path, port=free_port())
    assert (away["code"], away["coordinator"]["level"]) == (1, "problem")
    assert "state" not in away


def test_a_pccs_that_answers_and_one_that_does_not(running: Server, tmp_path: Path) -> None:
    bundle = (running.data / "simulation" / "collateral.json").read_bytes()
    pccs = PccsServer([ServedCollateral(read_collateral(bundle))])
    ca = tmp_path / "ca.pem"
    ca.write_bytes(pccs.ca_pem)
    with pccs:
        found = looked_at(running, tmp_path, "--pccs", pccs.url, "--pccs-ca", str(ca))
        assert (found["PCCS"]["level"], found["coordinator"]["level"]) == ("ok", "ok")
        assert found["clock"]["level"] in {"ok", "skipped"}
        stranger = looked_at(running, tmp_path, "--pccs", pccs.url)
        assert stranger["PCCS"]["level"] == "problem"
        assert "clock" not in stranger

    away = looked_at(running, tmp_path, "--pccs", pccs.url, "--pccs-ca", str(ca))
    assert (away["code"], away["PCCS"]["level"]) == (1, "problem")


def test_a_context_says_who_to_ask_and_which_files_are_yours(
    running: Server, tmp_path: Path
) -> None:
    machine, cert, key = running.data / "simulation", tmp_path / "alice.pem", tmp_path / "alice.key"
    cert.write_bytes(user("alice").pem)
    key.write_bytes(user("alice").key_pem)
    key.chmod(0o600)
    words = ("--attestation", str(machine / "attestation.json"), "--memory", "none")
    root = ("--simulation-root", str(machine / "root.pem"), "--address")
    who = (f"127.0.0.1:{running.port}", "--cert", str(cert), "--key", str(key))
    made = run("context", "add", "here", *words, *root, *who, env={"HOME": str(tmp_path)})
    assert made.code == 0, made.err

    ended = run("doctor", "--context", "here", "--json", env={"HOME": str(tmp_path)})

    found = {each["check"]: each["level"] for each in json.loads(ended.out)["findings"]}
    checks = ("contexts", "user certificate", "user key", "coordinator", "state")
    assert [found[check] for check in checks] == ["ok"] * 5

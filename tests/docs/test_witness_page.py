"""The page on witnesses does what it says: its commands run against a coordinator and witnesses."""

import re
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from support.cosigner import Cosigner
from support.peers.witness import Witness, policy
from support.process.command import run
from support.process.dev import dev
from support.process.page import walk
from support.process.server import PATIENCE, Server
from support.samples.deployment import manifest
from support.witnessed import until_held, until_served

_PAGE = Path(__file__).parent.parent.parent / "docs/how-to/run-with-witnesses.md"
_TEXT = _PAGE.read_text(encoding="utf-8")
_TRIAL, _REST = _TEXT.split("## Choose witnesses")

pytestmark = pytest.mark.acceptance


def test_every_command_of_the_witness_page_works(tmp_path: Path) -> None:
    server = Server(tmp_path / "keyhouse-data")
    begin, status = re.split(r"retries\s+by\s+itself", _REST, maxsplit=1)
    simulation = server.data / "simulation"
    with ExitStack() as stack:
        cosigners = [Cosigner.ed25519(f"{name}.example") for name in "abc"]
        witnesses = [stack.enter_context(Witness(each)) for each in cosigners]
        rules = policy(witnesses, 2)
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


def test_policy_of_the_page_is_accepted_in_a_manifest(tmp_path: Path) -> None:
    block = re.search(r"<<'EOF'\n(.*?)EOF\n", _REST, re.DOTALL)
    assert block is not None
    raw = manifest(Transparency={"Witnesses": block[1], "Serve": "Witnessed"})
    (tmp_path / "manifest.json").write_bytes(raw)
    checked = run("manifest", "check", "manifest.json", folder=tmp_path)
    assert checked.code == 0, checked.err


def test_trial_with_three_witnesses_shows_an_outage_and_refuses_an_old_disk(tmp_path: Path) -> None:
    outage, disk = _TRIAL.split("**An old disk.**")
    copy, put_back = disk.split("Then put the old disk back:")
    with dev(tmp_path, "--witnesses") as (_, ready):
        assert ready["witnessPolicy"] == "keyhouse-dev/witnesses.policy"
        printed = walk(outage, tmp_path)
        assert "A, B, C have cosigned" in printed
        assert "check witnesses       done" in printed
        _until_printed(("status",), tmp_path, "missing: C")

    walk(copy, tmp_path)
    with dev(tmp_path):  # without the option: the folder has the witnesses
        walk("```sh\nprintf hi | keyhouse secret set greeting --value -\n```\n", tmp_path)

    walk(put_back, tmp_path)
    with dev(tmp_path):
        _until_printed(("secret", "get", "greeting"), tmp_path, "error: rollback: ")
        _until_logged(tmp_path / "keyhouse-dev/coordinator.log", "rolled back: witnesses have seen")


def _until_printed(words: tuple[str, ...], folder: Path, text: str) -> None:
    """Run ``keyhouse`` with ``words`` until it prints ``text``."""
    deadline = time.monotonic() + PATIENCE
    while text not in (ended := run(*words, env={"HOME": str(folder)}, folder=folder)).out:
        if text in ended.err:
            return
        assert time.monotonic() < deadline, ended


def _until_logged(log: Path, text: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while text not in log.read_text("utf-8"):
        assert time.monotonic() < deadline, log.read_text("utf-8")
        time.sleep(0.01)  # polling the log of a foreign process


def test_state_that_began_without_witnesses_receives_none(tmp_path: Path) -> None:
    with dev(tmp_path):
        pass
    refused = run("dev", "--witnesses", env={"HOME": str(tmp_path)}, folder=tmp_path)
    assert refused.code == 1
    assert refused.err == (
        "error: the state in keyhouse-dev began without --witnesses\n"
        "hint: pass another --folder, or --ephemeral; or remove the state: rm -r keyhouse-dev\n"
    )
    assert not (tmp_path / "keyhouse-dev/witnesses").exists()


def test_witnesses_join_an_own_manifest_only_if_it_names_none(tmp_path: Path) -> None:
    (tmp_path / "own.json").write_bytes(manifest())
    with dev(tmp_path, "--witnesses", "--manifest", "own.json", "--ephemeral"):
        state = run("status", env={"HOME": str(tmp_path)}, folder=tmp_path)
        assert "A, B, C have cosigned" in state.out

    block = re.search(r"<<'EOF'\n(.*?)EOF\n", _REST, re.DOTALL)
    assert block is not None
    named = manifest(Transparency={"Witnesses": block[1]})
    (tmp_path / "named.json").write_bytes(named)
    refused = run(
        *("dev", "--witnesses", "--manifest", "named.json", "--ephemeral"),
        *("--client-port", "0", "--workload-port", "0"),
        env={"HOME": str(tmp_path)},
        folder=tmp_path,
    )
    assert (refused.code, "the manifest already names witnesses" in refused.err) == (1, True)

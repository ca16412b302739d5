"""Stores that earlier versions made: each one opens, and says what it said then.

``stores/<version>`` holds the state directory of a coordinator of that version, killed while an
update was pending, and in ``expected.json`` what it had answered just before. They are never
regenerated.
"""

import base64
import hashlib
import json
import shutil
import ssl
from pathlib import Path
from typing import Any

import pytest
from support.process.command import refused_start, run
from support.process.server import Server
from support.samples.deployment import User

pytestmark = pytest.mark.acceptance

_STORES = Path(__file__).parent / "stores"
_VERSIONS = sorted(path.name for path in _STORES.iterdir())


@pytest.fixture(params=_VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def expected(version: str) -> dict[str, Any]:
    found = json.loads((_STORES / version / "expected.json").read_text())
    assert isinstance(found, dict)
    return found


@pytest.fixture
def data(version: str, tmp_path: Path) -> Path:
    """A private copy of the state directory, with the modes that git does not keep."""
    copy = tmp_path / "data"
    shutil.copytree(_STORES / version / "data", copy)
    for path in [copy, *copy.rglob("*")]:
        path.chmod(0o700 if path.is_dir() else 0o600)
    return copy


def test_an_earlier_store_opens_and_answers_as_before(data: Path, expected: dict[str, Any]) -> None:
    people = {name: User(b"", pem.encode(), b"") for name, pem in expected["users"].items()}
    with (
        Server(data, arguments=("--adopt-root", _root_of(expected))) as server,
        server.client() as anyone,
        server.client(people["writer"]) as writer,
        server.client(people["alice"]) as alice,
        server.client(people["carol"]) as carol,
    ):
        epoch = expected["state"].partition(".")[0]
        assert anyone.get("/api/v2/status").headers["keyhouse-state"].startswith(f"{epoch}.")
        assert anyone.get("/api/v2/manifest").data["manifest"] == expected["manifest"]
        assert anyone.get("/api/v2/update").data == expected["log"]
        assert anyone.get("/api/v2/quote").data["cert"] == expected["root"]
        assert writer.get("/api/v2/secrets?s=note").data["secrets"]["note"] == expected["note"]
        assert alice.get("/api/v2/activations").data == expected["activations"]
        assert anyone.get("/api/v2/update-manifest").data == expected["pending"]

        pending = {"manifest": expected["pending"]["manifest"]}
        assert carol.post("/api/v2/update-manifest", pending).status == 200
        assert anyone.get("/api/v2/manifest").data["manifest"] == pending["manifest"]


def test_an_earlier_store_without_a_line_is_refused_unless_its_root_is_adopted(
    data: Path, expected: dict[str, Any]
) -> None:
    root = _root_of(expected)
    refused = refused_start(data)
    assert "nothing proves that this root was made by accepted code" in refused.error
    assert f"--adopt-root {root}" in refused.hint
    refused = refused_start(data, "--claim-fingerprint", "00" * 32)
    assert "nothing shows its first manifest" in refused.error
    refused = refused_start(data, "--adopt-root", "00" * 32)
    assert f"--adopt-root names {'00' * 32}" in refused.error
    with Server(data, arguments=("--adopt-root", root)):
        pass
    assert "--adopt-root does not name it" in refused_start(data).error
    refused = refused_start(data, "--claim-fingerprint", "00" * 32)
    assert "the root of this state was adopted" in refused.error
    with Server(data, arguments=("--adopt-root", root)) as server:
        machine = data / "simulation"
        trust = ("--attestation", str(machine / "attestation.json"))
        vendor = ("--simulation-root", str(machine / "root.pem"))
        ended = run("status", f"127.0.0.1:{server.port}", *trust, *vendor, "--memory", "none")
    assert ended.code == 0, ended.err
    fingerprint = hashlib.sha256(base64.b64decode(expected["manifest"])).hexdigest()
    assert f"adopted under  {fingerprint}" in ended.out
    assert "\nfirst manifest" not in ended.out  # nothing shows it
    assert "check origin          not done" in ended.out


def _root_of(expected: dict[str, Any]) -> str:
    pem = expected["root"].rpartition("-----BEGIN")[1:]
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert("".join(pem))).hexdigest()


def test_an_earlier_store_is_found_whole(data: Path, expected: dict[str, Any]) -> None:
    ended = run("store", "verify", str(data), "--json", "--platform", "simulation")

    assert (ended.code, ended.err) == (0, "")
    found = json.loads(ended.out)
    assert (found["ok"], found["decrypted"], found["state"]) == (True, True, expected["state"])

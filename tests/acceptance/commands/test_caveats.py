"""What a manifest promises less than it seems to is said wherever people look."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from support.process.server import Server
from support.samples.deployment import manifest
from support.samples.expiry import manifest_with

pytestmark = pytest.mark.acceptance


def test_the_set_answer_the_status_and_the_log_say_what_nothing_enforces(tmp_path: Path) -> None:
    content = json.loads(manifest(FeatureGates=["MonotonicCounter"]))
    content["Infrastructures"] = {"cloud": {"QESVN": 2}}
    content["Marbles"]["app"]["MaxActivations"] = 3
    server = Server(tmp_path / "data")
    with server, server.client() as client:
        answer = client.set_manifest(json.dumps(content).encode())
        status = client.get("/api/v2/status").data["message"]
        old_status = client.get("/status").data["statusMessage"]
    for text in (answer.envelope["message"], status, old_status, server.logged()):
        assert "nothing enforces Infrastructures" in text
        assert "rolls activation limits and monotonic counters back" in text


def test_the_log_says_it_of_a_startup_manifest_too(tmp_path: Path) -> None:
    content = json.loads(manifest()) | {"Infrastructures": {"cloud": {"QESVN": 2}}}
    file = tmp_path / "manifest.json"
    file.write_text(json.dumps(content))
    server = Server(tmp_path / "data", arguments=("--startup-manifest", str(file)))
    with server:
        pass
    assert "nothing enforces Infrastructures" in server.logged()


def test_the_status_and_the_log_say_whose_certificate_has_expired(tmp_path: Path) -> None:
    raw = manifest_with({"ann": datetime(2026, 1, 1, tzinfo=UTC)})
    server = Server(tmp_path / "data")
    with server, server.client() as client:
        assert client.set_manifest(raw).status == 200
        for text in (
            client.get("/api/v2/status").data["message"],
            client.get("/status").data["statusMessage"],
        ):
            assert "certificates of users that have expired and still identify them: 1" in text
    assert "the certificate of a user has expired" in server.logged()


def test_a_manifest_without_them_has_no_caveats(tmp_path: Path) -> None:
    server = Server(tmp_path / "data")
    with server, server.client() as client:
        assert "message" not in client.set_manifest(manifest()).envelope
        assert "; " not in client.get("/api/v2/status").data["message"]


def test_the_log_says_at_each_start_that_nothing_stops_a_rollback(tmp_path: Path) -> None:
    server = Server(tmp_path / "data")
    with server, server.client() as client:
        assert "no witnesses: " not in server.logged()
        assert client.set_manifest(manifest()).status == 200
    with server:
        pass
    assert server.logged().count("no witnesses: nothing stops ") == 2

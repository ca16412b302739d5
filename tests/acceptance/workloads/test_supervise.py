"""`keyhouse run --supervise` at a real coordinator: a program that lives through changes."""

import json
import signal
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.living.supervised import Supervised, living_type
from support.process.server import Server
from support.samples.deployment import manifest, user

pytestmark = pytest.mark.acceptance

OFTEN = ("--renew-every", "5")


def manifest_with(marble: dict[str, Any], **config: Any) -> bytes:
    raw: dict[str, Any] = json.loads(manifest())
    raw["Packages"]["app"] = {"SignerID": "00" * 32, "ProductID": 1, "SecurityVersion": 1}
    raw["Marbles"]["app"] = marble
    raw["Config"] = {**raw.get("Config", {}), **config}
    raw["Roles"]["update"] = {
        "ResourceType": "Packages",
        "ResourceNames": ["app"],
        "Actions": ["UpdateSecurityVersion"],
    }
    raw["Roles"]["guard"] = {
        "ResourceType": "Marbles",
        "ResourceNames": ["app"],
        "Actions": ["RevokeWorkload"],
    }
    raw["Users"]["writer"]["Roles"] += ["update", "guard"]
    return json.dumps(raw).encode()


def begin(server: Server, marble: dict[str, Any], **config: Any) -> None:
    with server.client() as client:
        reply = client.set_manifest(manifest_with(marble, **config))
        assert reply.status == 200, reply.body
    upload(server, bytes(16))


def upload(server: Server, key: bytes) -> None:
    with server.client(user("writer")) as client:
        assert client.upload({"key0": key}).status == 200


def update(server: Server, version: int) -> None:
    raised = b64encode(json.dumps({"Packages": {"app": {"SecurityVersion": version}}}).encode())
    with server.client(user("writer")) as client:
        assert client.post("/api/v2/update", {"manifest": raised.decode()}).status == 200


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A coordinator without a manifest."""
    with Server(tmp_path / "living") as server:
        yield server


def test_a_program_gets_renewed_certificates_and_changed_secrets(
    server: Server, tmp_path: Path
) -> None:
    begin(server, living_type(OnChange={"Signal": "HUP"}))
    with Supervised(server.mesh_port, tmp_path / "app", *OFTEN) as app:
        started = app.state("started")
        assert started["token"] == bytes(16).hex()
        renewed = app.state("SIGHUP")
        for name in ("tls.pem", "tls.key"):
            assert renewed["files"][name] != started["files"][name]
        upload(server, bytes(15) + b"\1")
        while app.state("SIGHUP")["token"] != (bytes(15) + b"\1").hex():
            pass
        assert app.process.poll() is None
        assert app.stop() == 128 + signal.SIGTERM
    assert started["parent"] == app.process.pid

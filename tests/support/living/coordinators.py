"""Real coordinators with a renewable type, for workloads that are real processes."""

import json
from base64 import b64encode
from typing import Any

from support.process.server import Server
from support.samples.deployment import manifest, user

__all__ = ["begin", "manifest_with", "revoke", "update", "upload"]


def manifest_with(marble: dict[str, Any], **config: Any) -> bytes:
    """Return a manifest with the renewable type ``app``; ``writer`` has all rights."""
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
    raw["Roles"]["replace"] = {"ResourceType": "Manifest", "Actions": ["UpdateManifest"]}
    raw["Users"]["writer"]["Roles"] += ["update", "guard", "replace"]
    return json.dumps(raw).encode()


def begin(server: Server, marble: dict[str, Any], **config: Any) -> None:
    """Set the manifest; upload ``key0``."""
    with server.client() as client:
        reply = client.set_manifest(manifest_with(marble, **config))
        assert reply.status == 200, reply.body
    upload(server, bytes(16))


def upload(server: Server, key: bytes) -> None:
    """Upload ``key0``."""
    with server.client(user("writer")) as client:
        assert client.upload({"key0": key}).status == 200


def update(server: Server, raw: bytes) -> None:
    """Update the manifest."""
    with server.client(user("writer")) as client:
        reply = client.post("/api/v2/update", {"manifest": b64encode(raw).decode()})
        assert reply.status == 200, reply.body


def revoke(server: Server, body: dict[str, str]) -> None:
    """Revoke a workload, a type or a platform."""
    with server.client(user("writer")) as client:
        assert client.post("/api/v2/revocations", body).status == 200

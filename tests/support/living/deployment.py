"""A real coordinator with a renewable marble type; a file of the type has an uploaded key."""

import json
from base64 import b64encode
from typing import Any

from support.process.server import Server
from support.samples.deployment import manifest, user


def channel_manifest() -> bytes:
    """Return a manifest with the renewable type ``app``; its file has an uploaded key.

    ``writer`` may revoke all types; ``reader`` may revoke only the renewable type ``other``.
    """
    raw: dict[str, Any] = json.loads(manifest())
    raw["Packages"]["app"] = {"SignerID": "00" * 32, "ProductID": 1, "SecurityVersion": 1}
    raw["Marbles"]["plain"] = {"Package": "app"}
    raw["Marbles"]["other"] = {"Package": "app", "Renewal": {}}
    raw["Marbles"]["app"] = {
        "Package": "app",
        "Renewal": {"ValidMinutes": 30, "OnChange": {"Signal": "HUP"}, "OnEnd": "Stop"},
        "Parameters": {
            "Files": {
                "/key": "key {{ hex .Secrets.key0 }}",
                "/own.pem": "{{ pem .MarbleRun.MarbleCert.Cert }}-"
                "{{ base64 .MarbleRun.MarbleCert.Private }}",
                "/roots.pem": "{{ pem .MarbleRun.RootCA.Cert }}",
            },
            "Env": {"PLAIN": "text"},
            "Argv": ["app", "-v"],
        },
    }
    raw["Roles"]["update"] = {
        "ResourceType": "Packages",
        "ResourceNames": ["app"],
        "Actions": ["UpdateSecurityVersion"],
    }
    raw["Roles"]["guard"] = {
        "ResourceType": "Marbles",
        "ResourceNames": ["app", "plain", "other"],
        "Actions": ["RevokeWorkload"],
    }
    raw["Roles"]["guard-of-other"] = {**raw["Roles"]["guard"], "ResourceNames": ["other"]}
    raw["Users"]["writer"]["Roles"] += ["update", "guard"]
    raw["Users"]["reader"]["Roles"] += ["guard-of-other"]
    return json.dumps(raw).encode()


def upload(server: Server, key: bytes) -> None:
    """Upload ``key`` as the user ``writer``."""
    with server.client(user("writer")) as client:
        assert client.upload({"key0": key}).status == 200


def update(server: Server) -> None:
    """Raise the SecurityVersion of the package as the user ``writer``."""
    with server.client(user("writer")) as client:
        raised = b64encode(b'{"Packages": {"app": {"SecurityVersion": 2}}}').decode()
        assert client.post("/api/v2/update", {"manifest": raised}).status == 200

"""Version 1 of the Client API beside version 2: other shapes, the same facts."""

import base64
import json
from pathlib import Path

import pytest
from support.process.server import Server
from support.samples.deployment import manifest, user
from support.samples.manifests import rsa_public_pem

from keyhouse.coordinator import Phase

pytestmark = pytest.mark.acceptance


@pytest.mark.parametrize("phase", Phase)
def test_reads_say_the_same_as_version_2(servers: dict[Phase, Server], phase: Phase) -> None:
    with servers[phase].client() as client:
        old, new = client.get("/status").data, client.get("/api/v2/status").data
        assert old == {"statusCode": int(phase), "statusMessage": new["message"]}
        assert client.get("/quote?nonce=AAAA").data == client.get("/api/v2/quote").data
        found = client.get("/manifest").data
        if phase is not Phase.RUNNING:
            assert found == {
                "manifestSignatureRootECDSA": None,
                "manifestSignature": "",
                "manifest": None,
            }
            return
        current = client.get("/api/v2/manifest").data
        assert found["manifest"] == current["manifest"]
        assert found["manifestSignature"] == current["manifestFingerprint"]
        assert found["manifestSignatureRootECDSA"] == current["manifestSignatureRootECDSA"]
        log = client.get("/api/v2/update").data["updateLog"]
        text = client.get("/update").data
        assert isinstance(text, str)
        assert json.loads(text) == [json.loads(line) for line in log]


def test_a_deployment_can_be_run_with_version_1_alone(tmp_path: Path) -> None:
    server = Server(tmp_path / "data")
    raw = json.loads(manifest())
    raw["RecoveryKeys"] = {"holder": rsa_public_pem(2048)}
    sent = json.dumps(raw).encode()
    with server, server.client() as nobody, server.client(user("writer")) as writer:
        shares = nobody.call("POST", "/manifest", sent).data
        assert shares["recoveryKeys"] == shares["RecoverySecrets"]
        assert len(base64.b64decode(shares["recoveryKeys"]["holder"])) == 256
        assert base64.b64decode(nobody.get("/manifest").data["manifest"]) == sent
        assert writer.post("/secrets", {"key0": {"key": "AAECAwQFBgcICQoLDA0ODw=="}}).data is None
        found = writer.get("/secrets?s=key0").data
        assert found == writer.get("/api/v2/secrets?s=key0").data["secrets"]
        assert "key0" in json.loads(nobody.get("/update").data)[-1].values()


def test_without_recovery_keys_the_data_of_a_set_manifest_is_null(tmp_path: Path) -> None:
    server = Server(tmp_path / "data")
    with server, server.client() as client:
        assert client.call("POST", "/manifest", manifest()).data is None


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/secrets", b'{"key0": {"key": "AAECAwQFBgcICQoLDA0ODw=="}} trailing'),
        ("/secrets", b""),
        ("/secrets", b"[]"),
        ("/update", b"nonsense"),
        ("/update", b'{"Packages": {}}'),
    ],
)
def test_refusals_are_errors_and_never_fail(running: Server, path: str, body: bytes) -> None:
    with running.client(user("writer")) as client:
        reply = client.call("POST", path, body)
        assert (reply.status, reply.envelope["status"]) == (400, "error")
        assert reply.envelope["message"]
        assert client.get("/status").status == 200


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ({"key0": {"key": "AAAA"}}, "key0.key"),
        ({"key0": {"key": "?"}}, "key0.key"),
        ({"key0": {"key": "AAAA", "cert": "AAAA"}}, "key0.key"),
        ({"note": {"cert": "AAAA"}}, "note.key"),
        ({}, ""),
    ],
)
def test_places_of_an_upload_are_those_of_its_body(
    running: Server, body: object, place: str
) -> None:
    """There is no field "secrets" around it: a user who was told of one would put it there."""
    with running.client(user("writer")) as client:
        data = client.post("/secrets", body).envelope["data"]
    assert (data["problems"][0]["at"] if "problems" in data else next(iter(data))) == place

"""Answers of the workload API under a manifest without ``Renewal``: as recorded before renewals.

``GOLDEN=write pytest THIS FILE`` records again. The variable ``GOLDEN_PROGRAM`` names the
``keyhouse`` of another installation: the recording is of commit 5f0de743, which had no renewals.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtensionOID
from h2.events import DataReceived, ResponseReceived, StreamEnded, StreamReset, TrailersReceived
from support.peers.golden import is_writing
from support.peers.workloads import Http2Wire, framed, request
from support.process.server import Server
from support.process.start import KEYHOUSE
from support.samples.deployment import manifest, user

from keyhouse.wire.marble_pb2 import ActivationResp

pytestmark = pytest.mark.acceptance

_FILE: Final = Path(__file__).parent / "golden" / "activations.json"
_UUID: Final = "4f2a3b1c-0000-4000-8000-00000000000a"
_DIFFERS: Final = {ExtensionOID.AUTHORITY_KEY_IDENTIFIER, ExtensionOID.SUBJECT_ALTERNATIVE_NAME}
_PREFIX: Final = 5

_CASES: Final[dict[str, Any]] = {
    "activation": {"MarbleType": "plain", "UUID": _UUID},
    "unknown type": {"MarbleType": "nothing"},
    "no request": {"CSR": b""},
    "no UUID": {"UUID": "x"},
}


def raw() -> bytes:
    """Return a manifest without the keys of running workloads."""
    content = json.loads(manifest())
    content["Marbles"]["plain"] = {
        "Package": "app",
        "Parameters": {
            "Files": {"/key": "key {{ hex .Secrets.key0 }}", "/text": "text"},
            "Env": {"KEY": "{{ base64 .Secrets.key0 }}"},
            "Argv": ["plain", "-v"],
        },
    }
    return json.dumps(content).encode()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A coordinator under this manifest, with a value of its secret."""
    program = os.environ.get("GOLDEN_PROGRAM", KEYHOUSE)
    with Server(tmp_path_factory.mktemp("recorded") / "data", program=program) as server:
        with server.client() as client:
            assert client.set_manifest(raw()).status == 200
        with server.client(user("writer")) as client:
            assert client.upload({"key0": bytes(range(16))}).status == 200
        yield server


def answered(server: Server, message: bytes, **changed: str) -> dict[str, Any]:
    """Return the frames of an answer, with placeholders for keys, certificates and texts."""
    found: list[Any] = []
    with Http2Wire(server.mesh_port) as wire:
        stream = wire.begin().whole(framed(message), **changed)
        wire.flush()
        data = b""
        while not found or found[-1] not in {"end", "reset"}:
            for event in wire._events():
                if getattr(event, "stream_id", None) != stream:
                    continue
                match event:
                    case ResponseReceived() | TrailersReceived():
                        headers = [(str(n), str(v)) for n, v in event.headers or ()]
                        found.append([(n, "" if n == "grpc-message" else v) for n, v in headers])
                    case DataReceived():
                        data += event.data or b""
                    case StreamEnded():
                        found.append("end")
                    case StreamReset():
                        found.append("reset")
                    case _:
                        pass
    shown: dict[str, Any] = {"frames": json.loads(json.dumps(found))}
    return shown | (_parameters(data) if data else {})


def _parameters(data: bytes) -> dict[str, Any]:
    assert data[:1] == b"\0"
    assert len(data) - _PREFIX == int.from_bytes(data[1:_PREFIX], "big")
    answer = ActivationResp.FromString(data[_PREFIX:])
    assert answer.SerializeToString(deterministic=True) != b""
    given = answer.Parameters
    env = dict(given.Env)
    chain = env.pop("MARBLE_PREDEFINED_MARBLE_CERTIFICATE_CHAIN")
    predefined = sorted(name for name in env if name.startswith("MARBLE_PREDEFINED"))
    return {
        "files": {name: value.decode() for name, value in sorted(given.Files.items())},
        "env": {name: env[name].decode() for name in sorted(env) if name not in predefined},
        "predefined": predefined,
        "argv": list(given.Argv),
        "certificates": [_certificate(each) for each in x509.load_pem_x509_certificates(chain)],
    }


def _certificate(certificate: x509.Certificate) -> dict[str, Any]:
    lasts = certificate.not_valid_after_utc - certificate.not_valid_before_utc
    algorithm = certificate.signature_hash_algorithm
    assert algorithm is not None
    return {
        "subject": certificate.subject.rfc4514_string().replace(_UUID, "<UUID>"),
        "issuer": certificate.issuer.rfc4514_string(),
        "days": lasts.days,
        "hash": algorithm.name,
        "extensions": [
            (each.oid.dotted_string, each.critical, _value(each)) for each in certificate.extensions
        ],
    }


def _value(extension: Any) -> str:
    different = {*_DIFFERS, ExtensionOID.SUBJECT_KEY_IDENTIFIER}
    return "" if extension.oid in different else extension.value.public_bytes().hex()


def test_every_answer_is_as_recorded(server: Server) -> None:
    found = {
        name: answered(server, request(**fields).SerializeToString())
        for name, fields in _CASES.items()
    }
    found["garbage"] = answered(server, b"\xff")
    found["unknown method"] = answered(server, b"", path="/rpc.Marble/Nothing")
    found = json.loads(json.dumps(found))
    if is_writing():
        _FILE.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    assert found == json.loads(_FILE.read_text("utf-8"))

"""Known secrets at every endpoint of a real process: found in no log, error or file afterwards."""

import json
import secrets
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_der_private_key, load_pem_private_key
from support.peers.answers import b64, checked, with_web_certificate
from support.peers.canaries import Canaries
from support.process.server import Client, Reply, Server
from support.samples.deployment import User, user

from keyhouse.server.client_api import ROUTES

pytestmark = pytest.mark.acceptance

UPLOAD = "/api/v2/secrets"
SHOWING = {("GET", path) for path in (UPLOAD, "/api/v2/manifest", "/secrets", "/manifest")}
"""What may answer values: the secrets to their readers, the manifest as it was uploaded."""


class Recorder:
    """Makes requests and keeps every byte of the answers that must not show a secret."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.kept = bytearray()

    def call(self, who: User | None, method: str, path: str, body: bytes | None = None) -> Reply:
        """Return the answer to a request of ``who``."""
        with self.server.client(who) as client:
            return self.sent(client, method, path, body)

    def sent(self, client: Client, method: str, path: str, body: bytes | None = None) -> Reply:
        """Return the answer to a request on a connection."""
        reply = checked(client.call(method, path, body))
        self.kept += json.dumps(dict(reply.headers)).encode()
        if reply.status != 200 or (method, path.partition("?")[0]) not in SHOWING:
            self.kept += reply.body
        return reply


def scalar(owner: User) -> bytes:
    """Return the secret number of a user's key."""
    return _number(load_pem_private_key(owner.key_pem, password=None))


def _number(key: object) -> bytes:
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return key.private_numbers().private_value.to_bytes(32, "big")


def fresh_secrets() -> dict[str, bytes]:
    """Return what will be sent, by what becomes of it."""
    random = {
        name: secrets.token_bytes(size)
        for name, size in {
            "initial key": 16,
            "initial data": 60,
            "refused initial key": 15,
            "uploaded key": 16,
            "uploaded data": 500,
            "key too long": 33,
            "key of the stranger": 16,
            "key without permission": 16,
            "key in broken JSON": 48,
            "key beside a bad field": 48,
            "key that a template cannot take": 48,
            "mixed key": 48,
            "numbers with a 256": 48,
            "raw body": 64,
        }.items()
    }
    texts = ("text that is no base64", "text in a wrong type", "text as nonce", "text as JSON")
    web, other = user("web of the canaries"), user("another of the canaries")
    return {
        **random,
        **{name: secrets.token_urlsafe(48).encode() for name in texts},
        "uploaded private key": scalar(web),
        "private key of another": scalar(other),
    }


def manifest_of(known: Mapping[str, bytes], initial_key: bytes) -> bytes:
    """Return a manifest with values of its own."""
    content = json.loads(with_web_certificate())
    content["Secrets"]["first"] = {
        "Type": "symmetric-key",
        "Size": 128,
        "UserDefined": True,
        "Private": b64(initial_key),
    }
    content["Secrets"]["text"] = {
        "Type": "plain",
        "UserDefined": True,
        "Private": b64(known["initial data"]),
    }
    content["Secrets"]["cert"] = {"Type": "cert-ecdsa", "Size": 256, "Shared": True}
    content["Roles"]["write"]["ResourceNames"] += ["first", "text"]
    content["Roles"]["read"]["ResourceNames"] += ["cert"]
    return json.dumps(content).encode()


def wrapped(raw: bytes) -> bytes:
    """Return a body with a manifest."""
    return json.dumps({"manifest": b64(raw)}).encode()


def upload_of(name: str, **fields: Any) -> bytes:
    """Return a body with one secret; bytes become base64."""
    shown = {k: b64(v) if isinstance(v, bytes) else v for k, v in fields.items()}
    return json.dumps({"secrets": {name: shown}}).encode()


def refused_manifests(known: Mapping[str, bytes]) -> dict[bytes, int]:
    """Return bodies for the first manifest that are refused, with the status."""
    raw = manifest_of(known, known["refused initial key"])
    text = known["text that is no base64"].decode()
    return {
        wrapped(raw): 400,
        wrapped(raw[:-1]): 400,
        wrapped(raw.replace(b64(known["initial data"]).encode(), text.encode() + b"!")): 400,
        raw: 400,
        json.dumps({"manifest": text + "!"}).encode(): 400,
        known["raw body"]: 400,
    }


def refused_uploads(known: Mapping[str, bytes]) -> dict[bytes, int]:
    """Return bodies of the writer that are refused, with the status."""
    web, other = user("web of the canaries"), user("another of the canaries")
    broken = upload_of("note", key=known["key in broken JSON"])
    template = known["key that a template cannot take"] + b"\0"
    return {
        upload_of("key0", key=known["key too long"]): 400,
        upload_of("shared", key=known["key without permission"]): 403,
        broken[:-3]: 400,
        broken[:-10] + b"\xff" + broken[-10:]: 400,
        broken.replace(b'{"key"', b'{"cert": 5, "key"'): 400,
        upload_of("note", key=known["key beside a bad field"], cert="?"): 400,
        upload_of("note", key=template): 400,
        upload_of("note", key=known["mixed key"], cert=web.der): 400,
        upload_of("note", key=[*known["numbers with a 256"], 256]): 400,
        upload_of("note", key=known["text that is no base64"].decode() + "!"): 400,
        upload_of("note", key={known["text in a wrong type"].decode(): 1}): 400,
        upload_of("web", cert=web.der, private=other.key_pem): 400,
        upload_of("web", cert=web.key_pem): 400,
        upload_of("web", cert=web.der, private=web.key_pem[:-40]): 400,
        known["text as JSON"]: 400,
        known["raw body"]: 400,
    }


def accepted_uploads(known: Mapping[str, bytes]) -> list[bytes]:
    """Return bodies of the writer that are accepted."""
    web = user("web of the canaries")
    return [
        upload_of("note", key=known["uploaded data"].replace(b"\0", b"\1")),
        upload_of("key0", key=known["uploaded key"]),
        upload_of("web", cert=web.der, private=web.key_pem),
    ]


def use_every_endpoint(recorder: Recorder, known: Mapping[str, bytes]) -> None:
    """Send secrets where none belong: every route, every kind of caller."""
    bodies = [*refused_uploads(known), wrapped(manifest_of(known, known["initial key"]))]
    nonce = known["text as nonce"].decode() + "!"
    for caller in (None, user("a stranger"), user("reader"), user("writer")):
        with recorder.server.client(caller) as client:
            for route in ROUTES:
                path = route.path.format(tile="entries/000.p/1", object="0" * 64)
                recorder.sent(client, route.method, f"{path}?nonce={nonce}")
                for body in bodies if route.method == "POST" else []:
                    assert recorder.sent(client, route.method, route.path, body).status != 200


def values(server: Server, who: str, *names: str) -> dict[str, bytes]:
    """Return the private values of ``names`` as ``who`` reads them."""
    with server.client(user(who)) as client:
        found = client.secrets(names)
    return {name: value for name, value in found.items() if value is not None}


def live(recorder: Recorder, known: dict[str, bytes]) -> None:
    """Set the manifest, upload, and do wrong whatever can be done wrong."""
    for body, status in refused_manifests(known).items():
        assert recorder.call(None, "POST", "/api/v2/manifest", body).status == status
    body = wrapped(manifest_of(known, known["initial key"]))
    assert recorder.call(None, "POST", "/api/v2/manifest", body).status == 200
    writer = user("writer")
    stranger = upload_of("key0", key=known["key of the stranger"])
    assert recorder.call(user("a stranger"), "POST", UPLOAD, stranger).status == 401
    for body in accepted_uploads(known):
        assert recorder.call(writer, "POST", UPLOAD, body).status == 200
    for body, status in refused_uploads(known).items():
        assert recorder.call(writer, "POST", UPLOAD, body).status == status
    use_every_endpoint(recorder, known)
    for path in ("/api/v2/status", "/api/v2/update", "/api/v2/quote"):
        assert recorder.call(None, "GET", path).status == 200


@pytest.mark.parametrize("form", ["json", "text"])
def test_no_secret_is_in_a_log_an_error_or_a_file(tmp_path: Path, form: str) -> None:
    known = fresh_secrets()
    folders = [tmp_path / "data", tmp_path / "temporary"]
    folders[1].mkdir()
    settings = {
        "KEYHOUSE_LOG_LEVEL": "debug",
        "KEYHOUSE_LOG_FORMAT": form,
        "TMPDIR": str(folders[1]),
    }
    server = Server(folders[0], environment=settings)
    recorder = Recorder(server)
    with server:
        live(recorder, known)
        held = values(server, "writer", "note", "key0", "first", "text")
        generated = values(server, "reader", "shared", "cert")
        assert held["key0"] == known["uploaded key"]
        assert held["first"] == known["initial key"]
        assert held["text"] == known["initial data"]
        generated["cert"] = _number(load_der_private_key(generated["cert"], password=None))
        canaries = Canaries({**known, **generated})
        with server.client(user("reader")) as client:  # where they belong, they are found
            shown = client.get(f"{UPLOAD}?s=shared&s=cert&s=key0").body
        assert set(canaries.found_in(shown)) == {"shared", "cert", "uploaded key"}
        assert list(folders[0].rglob("journal.db"))
        assert canaries.found_in_files(folders) == []  # while it runs: the write-ahead log too
        server.kill()
        server.start()
        assert values(server, "writer", "note", "key0", "first", "text") == held
    assert canaries.found_in_files([tmp_path]) == []
    assert canaries.found_in(bytes(recorder.kept)) == []
    assert len(recorder.kept) > 10_000
    assert "serving" in server.logged()


@pytest.mark.parametrize("offset", range(4))
def test_a_part_of_a_secret_is_found_in_every_encoding(offset: int) -> None:
    secret = secrets.token_bytes(40)
    canaries = Canaries({"it": secret, "another": secrets.token_bytes(40)})
    part = bytes(offset) + secret[5:25] + b"more"
    for shown in (
        part,
        part.hex().encode(),
        part.hex().upper().encode(),
        b64encode(part),
        urlsafe_b64encode(part),
        repr(part).encode(),
        json.dumps(list(part)).encode(),
    ):
        assert canaries.found_in(b"before " + shown + b" after") == ["it"]
    assert canaries.found_in(secrets.token_bytes(100_000)) == []

"""One life of a deployment, in both versions: each call that can succeed does, as described."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from support.living.renewal import LIVING
from support.peers.joined import asked_to_join
from support.peers.openapi import OPERATIONS, Target, recorded, require_described
from support.process.server import Client, Reply, Server
from support.samples.deployment import User, user
from support.samples.recovery import Holder, encrypted, holder, holders, recoverable

pytestmark = pytest.mark.acceptance


class Witness:
    """Sends requests, holds each answer to the description, and notes what succeeded."""

    def __init__(self) -> None:
        self.succeeded: set[Target] = set()

    def call(self, client: Client, method: str, path: str, body: Any = None) -> Reply:
        """Return the answer, which the description has."""
        sent = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        reply = client.call(method, path, sent)
        target = (method, path.partition("?")[0])
        require_described(target, reply.status, reply.headers, reply.envelope)
        if reply.status == 200:
            self.succeeded.add(target)
        return reply

    def done(self, client: Client, method: str, path: str, body: Any = None) -> Any:
        """Return the data of the answer, which is a success."""
        return self.call(client, method, path, body).data


def _manifest(keys: list[Holder], number: int) -> bytes:
    """Return a manifest that two administrators have to agree on; each ``number`` is another."""
    content = json.loads(recoverable(keys, secrets=number))
    content["Users"]["second"] = {**content["Users"]["admin"], "Certificate": _pem("second")}
    return json.dumps(content).encode()


def _pem(name: str) -> str:
    return user(name).pem.decode()


def _wrapped(raw: bytes) -> dict[str, str]:
    return {"manifest": base64.b64encode(raw).decode()}


def _updated(witness: Witness, server: Server, keys: list[Holder]) -> dict[str, str]:
    """Update twice, once in each version; return the recovery secrets of the last update."""
    admin, second = user("admin"), user("second")
    with server.client(admin) as first, server.client(second) as other:
        for update, cancel, body in (
            ("/api/v2/update", "/api/v2/update-cancel", _wrapped(_manifest(keys, 4))),
            ("/update", "/update-cancel", _manifest(keys, 4)),
        ):
            assert witness.done(first, "POST", update, body)["missingUsers"] == ["second"]
            assert witness.call(first, "POST", update, body).status == 409
            for path in ("/api/v2/update-manifest", "/update-manifest"):
                assert witness.done(other, "GET", path)["missingUsers"] == ["second"]
            witness.done(other, "POST", cancel)
            assert witness.call(other, "POST", cancel).status == 404
        raw = _manifest(keys, 5)
        witness.done(first, "POST", "/update", raw)
        assert witness.call(other, "POST", "/update-manifest", raw + b" ").status == 409
        assert witness.done(other, "POST", "/update-manifest", raw)["missingUsers"] == []
        body = _wrapped(_manifest([*keys, holder("rk9")], 5))
        witness.done(first, "POST", "/api/v2/update", body)
        done = witness.done(other, "POST", "/api/v2/update-manifest", body)
        again = witness.done(first, "GET", "/api/v2/recovery-secrets")
    assert again["recoverySecrets"] == done["recoverySecrets"]
    assert isinstance(done["recoverySecrets"], dict)
    return done["recoverySecrets"]


def _recovered(
    witness: Witness, server: Server, keys: list[Holder], sealed: dict[str, str]
) -> None:
    for number, each in enumerate(keys):
        with server.client() as client:
            public = base64.b64decode(
                witness.done(client, "GET", "/api/v2/recover/public-key")["ephemeralPublicKey"]
            )
            share = each.share(base64.b64decode(sealed[each.name]))
            body = {"recoverySecret": encrypted(public, share), "recoverySecretSignature": b"no"}
            assert witness.call(client, "POST", "/api/v2/recover", _texts(body)).status == 400
            body["recoverySecretSignature"] = each.sign(share)
            left = witness.done(client, "POST", "/api/v2/recover", _texts(body))["remaining"]
            assert left == len(keys) - number - 1


def _texts(body: dict[str, bytes]) -> dict[str, str]:
    return {name: base64.b64encode(value).decode() for name, value in body.items()}


def _read(witness: Witness, server: Server, who: User) -> None:
    with server.client(who) as client:
        for path in ("/api/v2/status", "/api/v2/manifest", "/api/v2/update", "/api/v2/quote"):
            witness.done(client, "GET", path)
            witness.done(client, "GET", path.removeprefix("/api/v2"))


def test_every_call_succeeds_as_it_is_described(tmp_path: Path) -> None:
    witness, keys = Witness(), holders(2)
    server, old = Server(tmp_path / "new"), Server(tmp_path / "old")
    with server:
        with server.client() as client:
            witness.done(client, "POST", "/api/v2/manifest", _wrapped(_manifest(keys, 3)))
        sealed = _updated(witness, server, keys)
        _read(witness, server, user("reader"))
        assert asked_to_join(server, "of nobody").answer is None
        with server.client(user("admin")) as client:
            assert witness.done(client, "GET", "/api/v2/refused-activations")["refused"]
        with server.client() as client:
            witness.done(client, "GET", "/api/v2/log/key")
            witness.done(client, "GET", "/api/v2/log/quote?nonce=" + "A" * 22)
            witness.done(client, "GET", "/api/v2/line?nonce=" + "A" * 22)
    (server.data / "sealed_key").unlink()
    with server:
        _recovered(witness, server, [*keys, holder("rk9")], sealed)
        _read(witness, server, user("reader"))
    with old, old.client() as client:
        assert witness.done(client, "POST", "/manifest", _manifest([], 3)) is None
        witness.call(client, "POST", "/recover")

    with Server(tmp_path / "living") as living:
        with living.client() as client:
            witness.done(client, "POST", "/api/v2/manifest", _wrapped(LIVING))
        with living.client(user("admin")) as client:
            body = {"scope": "platform", "platform": "ab" * 16}
            witness.done(client, "POST", "/api/v2/revocations", body)
            (revoked,) = witness.done(client, "GET", "/api/v2/revocations")["platforms"]
            assert revoked["user"] == "admin"
            assert witness.done(client, "GET", "/api/v2/workloads")["workloads"] == []

    golden = {target for target, answer in recorded().values() if answer["status"] == 200}
    can = {
        target
        for target, operation in OPERATIONS.items()
        if "application/json" in operation["responses"].get("200", {}).get("content", {})
    }
    assert witness.succeeded | golden == can - {("GET", "/api/v2/openapi.json")}

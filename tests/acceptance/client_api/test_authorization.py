"""Who gets what: every route, every kind of caller, every phase, over real TLS.

Generated from the router: a route without a row here fails.
"""

import socket
import ssl
from pathlib import Path

import pytest
from support.process.server import Reply, Server
from support.samples.deployment import User, manifest, user

from keyhouse.coordinator import Phase
from keyhouse.server.client_api import ROUTES, Caller

pytestmark = pytest.mark.acceptance

# What each route answers when nothing but the caller and the phase is judged: an empty request.
# (recovery, accepting manifest, running by anybody, running by a user)
ROWS: dict[tuple[str, str], tuple[int, int, int, int]] = {
    ("GET", "/api/v2/openapi.json"): (200, 200, 200, 200),
    ("GET", "/api/v2/status"): (200, 200, 200, 200),
    ("GET", "/api/v2/manifest"): (404, 404, 200, 200),
    ("POST", "/api/v2/manifest"): (400, 400, 409, 409),
    ("GET", "/api/v2/quote"): (200, 200, 200, 200),
    ("GET", "/api/v2/secrets"): (401, 401, 401, 400),
    ("POST", "/api/v2/secrets"): (401, 401, 401, 400),
    ("GET", "/api/v2/update"): (409, 409, 200, 200),
    ("GET", "/api/v2/log/checkpoint"): (409, 409, 200, 200),
    ("GET", "/api/v2/log/key"): (409, 409, 200, 200),
    ("GET", "/api/v2/log/quote"): (409, 409, 400, 400),
    ("GET", "/api/v2/line"): (409, 409, 400, 400),
    ("GET", "/api/v2/log/tile/{tile}"): (409, 409, 200, 200),
    ("GET", "/api/v2/log/object/{object}"): (409, 409, 404, 404),
    ("POST", "/api/v2/plan"): (401, 401, 401, 400),
    ("POST", "/api/v2/update"): (401, 401, 401, 400),
    ("GET", "/api/v2/update-manifest"): (404, 404, 404, 404),
    ("POST", "/api/v2/update-manifest"): (401, 401, 401, 400),
    ("POST", "/api/v2/update-cancel"): (401, 401, 401, 403),
    ("GET", "/api/v2/recover/public-key"): (409, 409, 409, 409),  # it has no recovery keys
    ("POST", "/api/v2/recover"): (400, 409, 409, 409),
    ("GET", "/api/v2/recovery-secrets"): (401, 401, 401, 403),
    ("POST", "/api/v2/sign-quote"): (403, 403, 400, 400),
    ("POST", "/api/v2/monotonic-counter"): (403, 403, 401, 401),
    ("GET", "/api/v2/activations"): (401, 401, 401, 403),
    ("GET", "/api/v2/refused-activations"): (401, 401, 401, 403),
    ("GET", "/api/v2/counters"): (401, 401, 401, 403),
    ("GET", "/api/v2/revocations"): (401, 401, 401, 403),
    ("GET", "/api/v2/workloads"): (401, 401, 401, 403),
    ("POST", "/api/v2/revocations"): (401, 401, 401, 400),
    ("GET", "/status"): (200, 200, 200, 200),
    ("GET", "/manifest"): (200, 200, 200, 200),
    ("POST", "/manifest"): (400, 400, 409, 409),
    ("GET", "/quote"): (200, 200, 200, 200),
    ("GET", "/secrets"): (401, 401, 401, 400),
    ("POST", "/secrets"): (401, 401, 401, 400),
    ("GET", "/update"): (409, 409, 200, 200),
    ("POST", "/update"): (401, 401, 401, 400),
    ("GET", "/update-manifest"): (404, 404, 404, 404),
    ("POST", "/update-manifest"): (401, 401, 401, 400),
    ("POST", "/update-cancel"): (401, 401, 401, 403),
    ("POST", "/recover"): (410, 410, 410, 410),
}

TARGETS = [(route.method, route.path) for route in ROUTES]


def _chained(owner: User, appended: User) -> User:
    """Return ``owner`` presenting ``appended`` as a further certificate of its chain."""
    return User(owner.der, owner.pem + appended.pem, owner.key_pem)


STRANGER = user("a stranger")
CALLERS: dict[str, User | None] = {
    "no certificate": None,
    "unknown certificate": STRANGER,
    "unknown certificate with the writer's appended": _chained(STRANGER, user("writer")),
    "writer": user("writer"),
    "user without a role": user("nobody"),
}
KNOWN = {"writer", "user without a role"}


def test_every_route_has_a_row() -> None:
    assert set(ROWS) == set(TARGETS)
    assert len(TARGETS) == len(set(TARGETS))


@pytest.mark.parametrize("caller", CALLERS)
@pytest.mark.parametrize("phase", Phase)
def test_each_route_judges_phase_gate_and_caller(
    servers: dict[Phase, Server], phase: Phase, caller: str
) -> None:
    wrong = []
    for method, path in TARGETS:
        with servers[phase].client(CALLERS[caller]) as client:
            target = path.format(tile="entries/000.p/1", object="0" * 64)
            reply = client.call(method, target, b"" if method == "POST" else None)
        row = ROWS[method, path]
        expected = row[phase - 1] if phase is not Phase.RUNNING else row[2 + (caller in KNOWN)]
        if reply.status != expected:
            wrong.append((method, path, reply.status, expected, reply.body))
        _is_an_answer(reply)
    assert not wrong


def _is_an_answer(reply: Reply) -> None:
    assert reply.headers["keyhouse-platform"] == "simulation"
    if reply.headers["content-type"] != "application/json":  # a part of the transparency log
        assert reply.status == 200
        return
    envelope = reply.envelope
    if "openapi" in envelope:  # the one answer that is a document of its own
        return
    assert list(envelope)[:2] == ["status", "data"]
    if reply.status == 200:
        assert envelope["status"] == "success"
    else:
        assert envelope["status"] in {"fail", "error"}
        assert envelope["message"]


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_an_appended_certificate_makes_nobody_a_user_also_on_resumed_sessions(
    running: Server, version: ssl.TLSVersion, tmp_path: Path
) -> None:
    pem = tmp_path / "chain.pem"
    pem.write_bytes(STRANGER.pem + user("writer").pem + STRANGER.key_pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.minimum_version = context.maximum_version = version
    context.load_cert_chain(pem)
    session = None
    for attempt in range(2):
        with (
            socket.create_connection(("127.0.0.1", running.port)) as plain,
            context.wrap_socket(plain, session=session) as secured,
        ):
            assert secured.session_reused is (attempt == 1)
            secured.sendall(b"GET /api/v2/secrets?s=note HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert secured.recv(1000).startswith(b"HTTP/1.1 401 ")
            session = secured.session


def test_missing_permissions_name_the_user_and_what_is_missing(running: Server) -> None:
    with running.client(user("reader")) as client:
        assert client.get("/api/v2/secrets?s=shared&s=key0").status == 200
        refused = client.get("/api/v2/secrets?s=shared&s=key1&s=unknown&s=note")
        assert refused.status == 403
        assert refused.envelope["status"] == "error"
        message = refused.envelope["message"]
        assert '"reader"' in message
        assert '"key1", "note", "unknown"' in message
        assert "shared" not in message
        assert client.upload({"key0": bytes(16)}).status == 403
    with running.client(user("writer")) as client:
        assert client.get("/api/v2/secrets?s=shared").status == 403
        assert client.upload({"key0": bytes(16), "shared": bytes(32)}).status == 403
        assert client.secrets(["key0"]) == {"key0": None}


def test_gates_that_the_manifest_does_not_open_are_closed_before_the_body_is_read(
    tmp_path: Path,
) -> None:
    server = Server(tmp_path / "data")
    with server, server.client() as client:
        assert client.set_manifest(manifest()).status == 200
        for path in ("/api/v2/sign-quote", "/api/v2/monotonic-counter"):
            reply = client.call("POST", path, b"{")
            assert (reply.status, reply.envelope["status"]) == (403, "error")
            assert "Config.FeatureGates" in reply.envelope["message"]


def test_callers_of_a_route_are_those_of_the_interface() -> None:
    users = {route.path for route in ROUTES if route.caller is Caller.USER}
    assert users == {
        "/api/v2/activations",
        "/api/v2/counters",
        "/api/v2/revocations",
        "/api/v2/workloads",
        "/api/v2/secrets",
        "/api/v2/plan",
        "/api/v2/recovery-secrets",
        "/api/v2/refused-activations",
        "/api/v2/update",
        "/api/v2/update-manifest",
        "/api/v2/update-cancel",
        "/secrets",
        "/update",
        "/update-manifest",
        "/update-cancel",
    }

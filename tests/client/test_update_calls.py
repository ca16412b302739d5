"""Updates through the SDK: what is sent, what is believed, and that no share is lost."""

import base64
import hashlib
import json
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.peers.peer import Peer, serving, success
from support.process.server import Server
from support.samples.deployment import user
from support.samples.updates import together

from keyhouse.attestation import read_collateral, read_expected_identity
from keyhouse.client import (
    AnswerUnreadableError,
    CallRefusedError,
    ClientIdentity,
    Coordinator,
    TrustedCoordinator,
    TrustError,
    UnreachableError,
    verify_coordinator,
)

MANIFEST = b'{"Packages": {}}'


@contextmanager
def session(peer: Peer, folder: Path) -> Iterator[Coordinator]:
    """Give a session with ``peer``."""
    with serving(peer, folder) as address:
        proven = verify_coordinator(
            address,
            expected=peer.platform.expected_identity,
            root_ca_der=peer.platform.root_ca,
            collateral=peer.platform.collateral,
            timeout=10,
        )
        with Coordinator(proven, timeout=10) as coordinator:
            yield coordinator


def answered(path: str, data: object, message: str = "") -> Peer:
    """Return a peer that answers ``data`` to a POST to ``path``."""
    peer = Peer.new()
    body = {"status": "success", "data": data} | ({"message": message} if message else {})
    peer.replies["POST", path] = (200, json.dumps(body).encode())
    return peer


def sent(peer: Peer) -> tuple[str, str, bytes]:
    """Return the last request: method, path, and the manifest in it."""
    method, path, body = peer.requests[-1]
    return method, path, base64.b64decode(json.loads(body)["manifest"])


def test_an_update_that_waits_says_who_is_missing(tmp_path: Path) -> None:
    data = {"missingAcknowledgments": 1, "missingUsers": ["bob", "carol"]}
    peer = answered("/api/v2/update", data, "it lowers \x1b[31m")
    with session(peer, tmp_path) as coordinator:
        answer = coordinator.update(MANIFEST)
    assert sent(peer) == ("POST", "/api/v2/update", MANIFEST)
    assert (answer.missing_acknowledgments, answer.missing_users) == (1, ("bob", "carol"))
    assert not answer.applied
    assert answer.recovery_secrets == {}
    assert answer.message == "it lowers \\x1b[31m"


def test_an_acknowledgement_that_applies_brings_the_recovery_secrets(tmp_path: Path) -> None:
    secret = base64.b64encode(b"encrypted").decode()
    data = {
        "message": "All have agreed",
        "missingAcknowledgments": 0,
        "missingUsers": None,  # as older coordinators say that nobody is missing
        "recoverySecrets": {"rk": secret},
    }
    peer = answered("/api/v2/update-manifest", data)
    with session(peer, tmp_path) as coordinator:
        answer = coordinator.acknowledge(MANIFEST)
    assert sent(peer) == ("POST", "/api/v2/update-manifest", MANIFEST)
    assert answer.applied
    assert answer.missing_users == ()
    assert answer.recovery_secrets == {"rk": b"encrypted"}
    assert answer.message == "All have agreed"


@pytest.mark.parametrize(
    "data",
    [
        None,
        {},
        [],
        {"missingUsers": []},
        {"missingAcknowledgments": None},
        {"missingAcknowledgments": -1},
        {"missingAcknowledgments": "0"},
        {"missingAcknowledgments": 0, "missingUsers": "bob"},
        {"missingAcknowledgments": 0, "recoverySecrets": {"rk": "%"}},
    ],
    ids=str,
)
def test_an_answer_that_does_not_say_how_far_it_is_never_means_applied(
    tmp_path: Path, data: object
) -> None:
    with (
        session(answered("/api/v2/update", data), tmp_path) as coordinator,
        pytest.raises(AnswerUnreadableError),
    ):
        coordinator.update(MANIFEST)


def test_the_pending_update_is_read_and_none_is_told_apart(tmp_path: Path) -> None:
    peer = Peer.new()
    where = ("GET", "/api/v2/update-manifest")
    peer.replies[where] = success(
        {"manifest": MANIFEST, "message": "1 more", "missingUsers": ["bob"]}
    )
    with session(peer, tmp_path) as coordinator:
        pending = coordinator.pending()
        assert pending is not None
        assert (pending.manifest, pending.missing_users) == (MANIFEST, ("bob",))
        peer.replies[where] = (404, b'{"status":"error","data":null,"message":"none"}')
        assert coordinator.pending() is None
        peer.replies[where] = (409, b'{"status":"error","data":null,"message":"recovery mode"}')
        with pytest.raises(CallRefusedError, match="recovery mode"):
            coordinator.pending()


def test_cancelling_sends_no_body(tmp_path: Path) -> None:
    peer = answered("/api/v2/update-cancel", {"message": "cancelled"})
    with session(peer, tmp_path) as coordinator:
        coordinator.cancel()
    assert peer.requests[-1] == ("POST", "/api/v2/update-cancel", b"")


def test_the_shares_of_a_first_manifest_are_kept_before_it_is_read_back(tmp_path: Path) -> None:
    kept: list[Mapping[str, bytes]] = []
    peer = answered("/api/v2/manifest", {"RecoverySecrets": {"rk": "AAEC"}})
    peer.replies["GET", "/api/v2/manifest"] = (500, b"broken")
    with session(peer, tmp_path) as coordinator, pytest.raises(AnswerUnreadableError):
        coordinator.set_manifest(MANIFEST, kept.append)
    assert kept == [{"rk": b"\x00\x01\x02"}]


# --- bound to a plan ---


DIGEST = "ab" * 32


def planned(path: str, digest: str = DIGEST, manifest: bytes = MANIFEST) -> Peer:
    """Return a peer that tells a plan of ``manifest``, and takes what is sent to ``path``."""
    peer = answered(path, {"missingAcknowledgments": 0, "missingUsers": []})
    plan = {
        "kind": "manifest",
        "base": "00" * 32,
        "manifest": hashlib.sha256(manifest).hexdigest(),
        "versions": {"app": 2**64 - 1},
        "users": ["bob"],
        "needed": 1,
        "changes": [{"section": "Users", "what": "a new word", "text": "something"}],
        "renewals": [],
        "kept": [],
        "further": 1,
    }
    body = {
        "digest": digest,
        "plan": plan,
        "acknowledged": [],
        "missingAcknowledgments": 1,
        "missingUsers": ["bob"],
        "notUploaded": [],
        "notes": [],
        "warnings": [],
    }
    peer.replies["POST", "/api/v2/plan"] = success(body)
    return peer


def bodies(peer: Peer) -> list[tuple[str, str]]:
    """Return paths and digests of what was posted."""
    return [
        (path, json.loads(body).get("plan", ""))
        for method, path, body in peer.requests
        if method == "POST"
    ]


@pytest.mark.parametrize("path", ["/api/v2/update", "/api/v2/update-manifest"])
def test_an_update_is_bound_to_the_plan_that_was_told_or_to_its_digest(
    tmp_path: Path, path: str
) -> None:
    peer = planned(path)
    with session(peer, tmp_path) as coordinator:
        call = coordinator.update if path.endswith("update") else coordinator.acknowledge
        found = coordinator.plan(MANIFEST)
        assert (found.digest, found.plan.changes[0].text) == (DIGEST, "something")
        assert call(MANIFEST, plan=found).applied
        assert bodies(peer) == [("/api/v2/plan", ""), (path, DIGEST)]
        assert call(MANIFEST, plan=DIGEST.upper()).applied
        assert bodies(peer)[2:] == [("/api/v2/plan", ""), (path, DIGEST)]


def test_nothing_is_sent_if_the_plan_is_another_one_by_now(tmp_path: Path) -> None:
    peer = planned("/api/v2/update", digest="cd" * 32)
    with session(peer, tmp_path) as coordinator:
        with pytest.raises(CallRefusedError, match="cd" * 32) as refused:
            coordinator.update(MANIFEST, plan=DIGEST)
        assert refused.value.reason == "conflict"
    assert bodies(peer) == [("/api/v2/plan", "")]


def test_nothing_is_sent_to_a_coordinator_that_would_not_look_at_the_digest(
    tmp_path: Path,
) -> None:
    peer = planned("/api/v2/update")
    del peer.replies["POST", "/api/v2/plan"]
    with (
        session(peer, tmp_path) as coordinator,
        pytest.raises((AnswerUnreadableError, CallRefusedError)),
    ):
        coordinator.update(MANIFEST, plan=DIGEST)
    assert bodies(peer) == [("/api/v2/plan", "")]


def test_a_plan_of_another_manifest_is_not_believed(tmp_path: Path) -> None:
    peer = planned("/api/v2/update", manifest=b"{}")
    with session(peer, tmp_path) as coordinator:
        with pytest.raises(TrustError, match=hashlib.sha256(b"{}").hexdigest()):
            coordinator.plan(MANIFEST)
        other = coordinator.plan(b"{}")
        with pytest.raises(TrustError, match=hashlib.sha256(b"{}").hexdigest()):
            coordinator.update(MANIFEST, plan=other)
    assert {path for path, _ in bodies(peer)} == {"/api/v2/plan"}


# --- with a real coordinator ---


def _proven(server: Server) -> TrustedCoordinator:
    folder = server.data / "simulation"
    return verify_coordinator(
        f"127.0.0.1:{server.port}",
        expected=read_expected_identity((folder / "attestation.json").read_bytes()),
        root_ca_der=ssl.PEM_cert_to_DER_cert((folder / "root.pem").read_text()),
        collateral=read_collateral((folder / "collateral.json").read_bytes()),
    )


def _identity(folder: Path, name: str) -> ClientIdentity:
    identity = ClientIdentity(folder / f"{name}.pem", folder / f"{name}.key")
    identity.certificate.write_bytes(user(name).pem)
    identity.key.write_bytes(user(name).key_pem)
    return identity


@pytest.mark.acceptance
def test_three_users_update_a_real_coordinator(tmp_path: Path) -> None:
    first, new = together(holders=["rk0"]), together(holders=["rk1"], word="new")
    with Server(tmp_path / "data") as server:
        proven = _proven(server)
        alice, bob, carol = (
            Coordinator(proven, _identity(tmp_path, name)) for name in ("alice", "bob", "carol")
        )
        with alice, bob, carol:
            assert list(alice.set_manifest(first)) == ["rk0"]
            assert bob.pending() is None
            waits = alice.update(new)
            assert (waits.missing_acknowledgments, waits.missing_users) == (1, ("bob", "carol"))
            pending = bob.pending()
            assert pending is not None
            assert pending.manifest == new
            with pytest.raises(CallRefusedError, match=hashlib.sha256(new).hexdigest()) as refused:
                bob.acknowledge(first)
            assert refused.value.http_status == 409
            carol.cancel()
            assert bob.pending() is None
            bob.update(new)
            done = carol.acknowledge(new)
            assert done.applied
            assert done.message.split()[0] == "All"
            assert list(done.recovery_secrets) == ["rk1"]
            assert alice.manifest().manifest == new
            server.kill()
            with pytest.raises(UnreachableError):
                alice.update(first)

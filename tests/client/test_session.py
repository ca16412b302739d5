"""A session speaks to the verified root's owner only, and reads what it answers."""

import base64
import hashlib
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
)
from support.peers.peer import Certified, Peer, certify, listening, serving, success
from support.watcher import Noted

from keyhouse.base.secret import Secret
from keyhouse.cli.output.progress_bar import watched_by
from keyhouse.client import (
    Address,
    AnswerUnreadableError,
    CallRefusedError,
    ClientIdentity,
    ClientSetupError,
    Coordinator,
    FileMemory,
    SecretUpload,
    ServiceUnavailableError,
    TrustedCoordinator,
    TrustError,
    UnreachableError,
    read_pem,
    verify_coordinator,
)

STATUS = success({"status": 3, "code": 3, "message": "running"})
MANIFEST = b'{"Packages": {}}'
TEXT: Any = "QUJD"


def trust(peer: Peer, address: Address) -> TrustedCoordinator:
    return verify_coordinator(
        address,
        expected=peer.platform.expected_identity,
        root_ca_der=peer.platform.root_ca,
        collateral=peer.platform.collateral,
        timeout=10,
    )


@contextmanager
def session(
    peer: Peer, folder: Path, identity: ClientIdentity | None = None
) -> Iterator[Coordinator]:
    with (
        serving(peer, folder) as address,
        Coordinator(trust(peer, address), identity, timeout=10) as coordinator,
    ):
        yield coordinator


def manifest_reply(peer: Peer, manifest: bytes = MANIFEST) -> tuple[int, bytes]:
    signature = peer.root.key.sign(manifest, ec.ECDSA(hashes.SHA256()))
    return success(
        {
            "manifestSignatureRootECDSA": signature,
            "manifestFingerprint": hashlib.sha256(manifest).hexdigest(),
            "manifest": manifest,
        }
    )


def write_identity(folder: Path, user: Certified) -> ClientIdentity:
    identity = ClientIdentity(folder / "user.pem", folder / "user.key")
    identity.certificate.write_bytes(user.pem)
    identity.key.write_bytes(user.key_pem)
    return identity


def test_the_status_is_read_over_a_kept_connection(tmp_path: Path) -> None:
    peer = Peer.new()
    peer.replies["GET", "/api/v2/status"] = STATUS
    with session(peer, tmp_path) as coordinator:
        assert coordinator.status().code == 3
        assert coordinator.status().message == "running"


def test_a_call_names_the_newest_place_that_is_remembered(tmp_path: Path) -> None:
    peer = Peer.new()
    memory = FileMemory(tmp_path / "known.json")
    peer.replies["GET", "/status"] = success({"statusCode": 3, "statusMessage": "running"})
    with serving(peer, tmp_path) as address:
        trusted = msgspec.structs.replace(trust(peer, address), memory=memory)
        with Coordinator(trusted, timeout=10) as coordinator:
            for place in (f"1.5.{'a' * 16}", f"1.6.{'b' * 16}", f"1.6.{'b' * 16}"):
                peer.extra_headers["Keyhouse-State"] = place
                coordinator.status()
    seen = [None, *(f"1.5.{'a' * 16}",) * 2, *(f"1.6.{'b' * 16}",) * 2]
    assert peer.at_least[1:] == [None, *seen]  # in version 2, which it does not know, and in 1


@pytest.mark.parametrize("who", ["workload with chain", "workload alone", "twin", "intermediate"])
def test_another_certificate_under_the_same_root_hears_no_byte(tmp_path: Path, who: str) -> None:
    peer = Peer.new()
    with serving(peer, tmp_path) as address:
        trusted = trust(peer, address)
    workload = certify("Root", peer.intermediate, is_ca=False)
    twin = certify("Root", peer.root)  # the same names, signed by the root itself
    served = {
        "workload with chain": (workload, peer.intermediate, peer.root),
        "workload alone": (workload,),
        "twin": (twin, peer.root),
        "intermediate": (peer.intermediate, peer.root),
    }[who]
    with listening(served, tmp_path) as (elsewhere, heard):
        moved = msgspec.structs.replace(trusted, address=elsewhere)
        with Coordinator(moved, timeout=10) as coordinator, pytest.raises(TrustError):
            coordinator.set_manifest(MANIFEST)
    assert b"".join(heard) == b""


def test_another_root_with_the_same_name_is_refused(tmp_path: Path) -> None:
    peer = Peer.new()
    with serving(peer, tmp_path) as address:
        trusted = trust(peer, address)
    with listening((certify("Root"),), tmp_path) as (elsewhere, heard):
        moved = msgspec.structs.replace(trusted, address=elsewhere)
        with Coordinator(moved, timeout=10) as coordinator, pytest.raises(TrustError):
            coordinator.status()
    assert b"".join(heard) == b""


def test_proxies_and_key_logs_of_the_environment_have_no_effect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "keys.log"
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setenv("SSLKEYLOGFILE", str(log))
    monkeypatch.setenv("SSL_CERT_FILE", "/nonexistent")
    peer = Peer.new()
    peer.replies["GET", "/api/v2/status"] = STATUS
    with session(peer, tmp_path) as coordinator:
        assert coordinator.status().code == 3
    assert not log.exists()


def test_the_manifest_is_returned_with_fingerprint_and_signature_checked(tmp_path: Path) -> None:
    peer = Peer.new()
    peer.replies["GET", "/api/v2/manifest"] = manifest_reply(peer)
    with session(peer, tmp_path) as coordinator:
        assert coordinator.manifest().manifest == MANIFEST


@pytest.mark.parametrize("field", ["manifestSignatureRootECDSA", "manifestFingerprint", "manifest"])
def test_a_manifest_with_anything_changed_is_not_believed(tmp_path: Path, field: str) -> None:
    peer = Peer.new()
    other = json.loads(manifest_reply(Peer.new(), b"{}")[1])["data"][field]
    answer = json.loads(manifest_reply(peer)[1])
    answer["data"][field] = other
    peer.replies["GET", "/api/v2/manifest"] = (200, json.dumps(answer).encode())
    with session(peer, tmp_path) as coordinator, pytest.raises(TrustError):
        coordinator.manifest()


def test_setting_a_manifest_returns_the_shares_and_reads_it_back(tmp_path: Path) -> None:
    peer = Peer.new()
    shares = {"alice": b"encrypted"}
    peer.replies["POST", "/api/v2/manifest"] = success({"RecoverySecrets": shares})
    peer.replies["GET", "/api/v2/manifest"] = manifest_reply(peer)
    with session(peer, tmp_path) as coordinator:
        assert coordinator.set_manifest(MANIFEST) == shares
    sent = next(body for method, _, body in peer.requests if method == "POST")
    assert base64.b64decode(json.loads(sent)["manifest"]) == MANIFEST


def test_another_manifest_in_force_after_setting_one_is_a_trust_failure(tmp_path: Path) -> None:
    peer = Peer.new()
    peer.replies["POST", "/api/v2/manifest"] = success({})
    peer.replies["GET", "/api/v2/manifest"] = manifest_reply(peer, b'{"Packages":{}}')
    with (
        session(peer, tmp_path) as coordinator,
        pytest.raises(TrustError, match="is not the manifest"),
    ):
        coordinator.set_manifest(MANIFEST)


def test_a_user_presents_the_certificate_and_reads_secrets(tmp_path: Path) -> None:
    user = certify("alice")
    peer = Peer.new()
    peer.users = user.pem
    peer.replies["GET", "/api/v2/secrets"] = success(
        {
            "secrets": {
                "my key": {
                    "type": "symmetric-key",
                    "size": 128,
                    "shared": True,
                    "userDefined": False,
                    "private": b"0123456789abcdef",
                    "public": b"0123456789abcdef",
                },
                "later": {"Type": "plain", "UserDefined": True, "Private": None, "Public": None},
            }
        }
    )
    with session(peer, tmp_path, write_identity(tmp_path, user)) as coordinator:
        found = coordinator.secrets(["my key", "later"])
    assert found["my key"].private == Secret(b"0123456789abcdef")
    assert found["my key"].shared
    assert found["later"].private is None
    assert peer.requests[-1][1] == "/api/v2/secrets?s=my+key&s=later"
    assert peer.client_certificates[-1] == user.der
    assert "0123456789abcdef" not in repr(found)


def test_a_name_in_place_of_a_list_of_names_is_not_read_as_letters(tmp_path: Path) -> None:
    peer = Peer.new()
    with session(peer, tmp_path) as coordinator:
        asked = len(peer.requests)
        with pytest.raises(TypeError, match=re.escape("""secrets(['greeting'])""")):
            coordinator.secrets("greeting")
    assert len(peer.requests) == asked


def test_names_may_come_from_an_iterator(tmp_path: Path) -> None:
    peer = Peer.new()
    peer.replies["GET", "/api/v2/secrets"] = success({"secrets": {"a": {"type": "plain"}}})
    with session(peer, tmp_path) as coordinator:
        assert set(coordinator.secrets(iter(["a"]))) == {"a"}  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (lambda on: on.secrets([1]), "the name of a secret must be text, not int"),
        (
            lambda on: on.write_secrets({1: SecretUpload()}),
            "the name of a secret must be text, not int",
        ),
        (
            lambda on: on.write_secrets({"a": "QUJD"}),
            ("value of 'a' must be a SecretUpload, not str"),
        ),
        (lambda on: on.write_secrets({"a": SecretUpload(key=TEXT)}), r"must be Secret\(bytes\)"),
        (lambda on: on.write_secrets({"a": SecretUpload(cert=TEXT)}), "must be bytes, not str"),
        (lambda on: on.set_manifest("QUJD"), "a manifest must be bytes, not str"),
        (lambda on: on.plan("QUJD"), "a manifest must be bytes, not str"),
        (lambda on: on.acknowledge("QUJD"), "bytes"),
        (lambda on: on.sign_quote("QUJD"), "a quote must be bytes, not str"),
    ],
    ids=range(9),
)
def test_what_has_another_type_is_not_sent(
    tmp_path: Path, call: Callable[[Any], object], problem: str
) -> None:
    """Text would be sent as if it were base64, and other bytes would be stored."""
    peer = Peer.new()
    with session(peer, tmp_path) as coordinator:
        asked = len(peer.requests)
        with pytest.raises(TypeError, match=problem) as refused:
            call(coordinator)
    assert "QUJD" not in str(refused.value)
    assert [path for _, path, *_ in peer.requests[asked:] if "log" not in path] == []


def test_a_session_that_was_closed_says_so(tmp_path: Path) -> None:
    peer = Peer.new()
    with session(peer, tmp_path) as coordinator:
        pass
    with pytest.raises(RuntimeError, match="the session is closed"):
        coordinator.status()


def test_a_key_that_would_be_shown_is_refused() -> None:
    with pytest.raises(TypeError, match="must be a Secret"):
        read_pem(b"", "key")  # type: ignore[arg-type]


def test_other_secrets_than_asked_for_are_not_taken(tmp_path: Path) -> None:
    peer = Peer.new()
    peer.replies["GET", "/api/v2/secrets"] = success({"secrets": {"b": {"type": "plain"}}})
    with (
        session(peer, tmp_path) as coordinator,
        pytest.raises(TrustError, match="requested secrets"),
    ):
        coordinator.secrets(["a"])


def test_uploaded_secrets_arrive_as_base64_without_empty_fields(tmp_path: Path) -> None:
    peer = Peer.new()
    peer.replies["POST", "/api/v2/secrets"] = success(None)
    uploads = {
        "key": SecretUpload(key=Secret(b"\xfb\xff")),
        "cert": SecretUpload(cert=b"der", private=Secret(b"pkcs8")),
    }
    with session(peer, tmp_path) as coordinator:
        coordinator.write_secrets(uploads)
    assert json.loads(peer.requests[-1][2]) == {
        "secrets": {"key": {"key": "+/8="}, "cert": {"cert": "ZGVy", "private": "cGtjczg="}}
    }


def test_the_update_log_is_read_line_by_line(tmp_path: Path) -> None:
    peer = Peer.new()
    line = '{"time":"2026-01-01T00:00:00.000Z","update":"Secret set","user":"bob","new version":2}'
    peer.replies["GET", "/api/v2/update"] = success({"updateLog": [line]})
    with session(peer, tmp_path) as coordinator:
        (entry,) = coordinator.update_log()
    assert (entry.update, entry.user, entry.text) == ("Secret set", "bob", line)


def test_a_counter_answers_what_it_was(tmp_path: Path) -> None:
    peer = Peer.new()
    peer.replies["POST", "/api/v2/monotonic-counter"] = success({"value": 2**64 - 1})
    with session(peer, tmp_path) as coordinator:
        assert coordinator.raise_counter("releases", 7) == 2**64 - 1
    assert json.loads(peer.requests[-1][2]) == {"name": "releases", "value": 7}


def test_large_upload_tells_how_much_is_sent(tmp_path: Path) -> None:
    peer = Peer.new()
    peer.replies["POST", "/api/v2/secrets"] = success(None)
    value, noted = bytes(3_000_000), Noted()
    with session(peer, tmp_path) as coordinator, watched_by(noted):
        coordinator.write_secrets({"small": SecretUpload(key=Secret(b"a"))})
        assert not noted.parts
        coordinator.write_secrets({"large": SecretUpload(key=Secret(value))})

    sent = json.loads(peer.requests[-1][2])["secrets"]["large"]["key"]
    assert base64.b64decode(sent) == value
    ((part, total),) = noted.parts
    assert (part, total, noted.done) == ("sending", len(peer.requests[-1][2]), [total])


def test_a_signature_over_another_quote_is_not_believed(tmp_path: Path) -> None:
    peer = Peer.new()
    signature = peer.root.key.sign(b"b3RoZXI=UpToDate", ec.ECDSA(hashes.SHA256()))
    peer.replies["POST", "/api/v2/sign-quote"] = success(
        {"tcbStatus": "UpToDate", "verificationSignature": signature}
    )
    with session(peer, tmp_path) as coordinator:
        assert coordinator.sign_quote(b"other").tcb_status == "UpToDate"
        with pytest.raises(TrustError, match="not signed"):
            coordinator.sign_quote(b"quote")


def test_a_page_of_activations_is_read(tmp_path: Path) -> None:
    peer = Peer.new()
    one = {"time": "t", "marbleType": "app", "uuid": "u", "names": ["a"], "uniqueID": "ab"}
    peer.replies["GET", "/api/v2/activations"] = success(
        {"activations": [one], "first": 6, "next": 7}
    )
    with session(peer, tmp_path) as coordinator:
        page = coordinator.activations(6)
    assert peer.requests[-1][1] == "/api/v2/activations?from=6"
    assert (page.activations[0].unique_id, page.activations[0].names) == ("ab", ("a",))
    assert (page.first, page.next) == (6, 7)


def test_a_page_of_counters_is_read(tmp_path: Path) -> None:
    peer = Peer.new()
    one = {"marbleType": "app", "uuid": "u", "counters": {"a": 2**64 - 1}}
    limits = {"app": {"activations": 1, "maxActivations": 3}}
    peer.replies["GET", "/api/v2/counters"] = success(
        {"limits": limits, "workloads": [one], "first": 6, "next": 7}
    )
    with session(peer, tmp_path) as coordinator:
        page = coordinator.counters(6)
    assert peer.requests[-1][1] == "/api/v2/counters?from=6"
    assert (page.limits["app"].max_activations, page.workloads[0].counters["a"]) == (3, 2**64 - 1)
    assert (page.first, page.next) == (6, 7)


def test_refused_activations_are_read(tmp_path: Path) -> None:
    peer = Peer.new()
    one = {"marbleType": "app", "code": "forbidden", "reason": "no", "uniqueID": "ab", "later": 1}
    since = "2027-01-15T08:00:00.000Z"
    peer.replies["GET", "/api/v2/refused-activations"] = success({"refused": [one], "since": since})
    with session(peer, tmp_path) as coordinator:
        found = coordinator.refused_activations()
    assert found.since == since
    (refused,) = found.refused
    assert (refused.marble_type, refused.unique_id, refused.count) == ("app", "ab", 0)


def test_revocations_are_sent_and_read(tmp_path: Path) -> None:
    peer = Peer.new()
    one = {"marbleType": "app", "uuid": "u", "platform": "", "ends": "then", "renews": True}
    peer.replies["GET", "/api/v2/revocations"] = success({"workloads": [one], "platforms": []})
    effect = {"workloads": 1, "ends": "then", "witnessed": False}
    peer.replies["POST", "/api/v2/revocations"] = success(effect, "not witnessed")
    with session(peer, tmp_path) as coordinator:
        (revoked,) = coordinator.revocations().workloads
        assert (revoked.marble_type, revoked.renews) == ("app", True)
        sent = []
        for named in ({"marble_type": "app", "uuid": "u"}, {"marble_type": "app"}):
            told = coordinator.revoke(**named)
            assert (told.workloads, told.ends, told.message) == (1, "then", "not witnessed")
            sent.append(json.loads(peer.requests[-1][2]))
        coordinator.revoke(platform="ab", reason="why")
        sent.append(json.loads(peer.requests[-1][2]))
        with pytest.raises(TypeError):
            coordinator.revoke(uuid="u")
    assert sent == [
        {"scope": "workload", "marbleType": "app", "uuid": "u"},
        {"scope": "type", "marbleType": "app"},
        {"scope": "platform", "platform": "ab", "reason": "why"},
    ]


@pytest.mark.parametrize("line", ["", "[]", "nonsense", '"text"'])
def test_a_log_line_that_is_not_an_object_is_reported(tmp_path: Path, line: str) -> None:
    peer = Peer.new()
    peer.replies["GET", "/api/v2/update"] = success({"updateLog": [line]})
    with session(peer, tmp_path) as coordinator, pytest.raises(AnswerUnreadableError):
        coordinator.update_log()


def test_refusals_carry_the_http_status_and_the_coordinators_words(tmp_path: Path) -> None:
    peer = Peer.new()
    fail = b'{"status":"fail","data":null,"message":"who are you"}'
    peer.replies["GET", "/api/v2/secrets"] = (401, fail)
    someone = write_identity(tmp_path, certify("someone"))
    with (
        session(peer, tmp_path, someone) as coordinator,
        pytest.raises(CallRefusedError) as caught,
    ):
        coordinator.secrets(["a"])
    refusal = caught.value
    assert (refusal.http_status, refusal.message, refusal.kind) == (401, "who are you", "fail")


def test_details_of_a_refusal_reach_no_terminal_with_control_characters(tmp_path: Path) -> None:
    peer = Peer.new()
    problem = {"at": "$\x1b[2J", "problem": "bad\x1b[2J", "hint": "better\x1b[2J"}
    for data in ({"na\x1b[2Jme": "why\x1b[2J"}, {"problems": [problem]}):
        body = json.dumps({"status": "fail", "data": data, "message": "no"}).encode()
        peer.replies["GET", "/api/v2/secrets"] = (400, body)
        with session(peer, tmp_path) as coordinator, pytest.raises(CallRefusedError) as caught:
            coordinator.secrets(["a"])
        refusal = caught.value
        told = [*refusal.fields, *refusal.fields.values()]
        told += [each for one in refusal.problems for each in (one.at, one.problem, one.hint)]
        assert told
        assert all("[2J" in each and "\x1b" not in each for each in told)


def test_a_busy_coordinator_is_told_apart(tmp_path: Path) -> None:
    peer = Peer.new()
    peer.replies["GET", "/api/v2/status"] = (503, b'{"status":"error","message":"disk is full"}')
    with (
        session(peer, tmp_path) as coordinator,
        pytest.raises(ServiceUnavailableError, match="disk is full"),
    ):
        coordinator.status()


@pytest.mark.parametrize(
    ("code", "body"),
    [
        (200, b""),
        (200, b"hello"),
        (200, b"[]"),
        (200, b'{"status":"success"}'),
        (200, b'{"status":"success","data":{"code":"3"}}'),
        (200, b'{"status":"error","message":"?"}'),
        (200, STATUS[1].replace(b'"success"', b'"error"')),
        (200, STATUS[1].replace(b'"success"', b'""')),
        (201, b'{"status":"success","data":{"code":3}}'),
        (302, b""),
        (500, b"<html>"),
        (500, b'{"status":7}'),
        (405, b'{"status":"error","data":null}'),
        (200, b"[" * 100_000),
        (200, b"\xff"),
    ],
)
def test_an_answer_that_the_interface_does_not_have_is_reported_as_such(
    tmp_path: Path, code: int, body: bytes
) -> None:
    peer = Peer.new()
    peer.replies["GET", "/api/v2/status"] = (code, body)
    with session(peer, tmp_path) as coordinator, pytest.raises(AnswerUnreadableError):
        coordinator.status()


def test_an_unreadable_answer_with_secrets_is_not_quoted(tmp_path: Path) -> None:
    peer = Peer.new()
    body = b'{"status":"success","data":{"secrets":{"a":{"type":"plain","private":"CANARY!"}}}}'
    peer.replies["GET", "/api/v2/secrets"] = (200, body)
    with session(peer, tmp_path) as coordinator, pytest.raises(AnswerUnreadableError) as caught:
        coordinator.secrets(["a"])
    assert "CANARY" not in str(caught.value)


def test_a_coordinator_that_is_gone_is_unreachable(tmp_path: Path) -> None:
    peer = Peer.new()
    with serving(peer, tmp_path) as address:
        trusted = trust(peer, address)
    with Coordinator(trusted, timeout=5) as coordinator, pytest.raises(UnreachableError) as caught:
        coordinator.set_manifest(MANIFEST)
    assert not caught.value.sent


def test_an_upload_without_an_answer_may_have_been_carried_out(tmp_path: Path) -> None:
    peer = Peer.new()
    with serving(peer, tmp_path) as address:
        trusted = trust(peer, address)
    with listening((peer.root,), tmp_path) as (elsewhere, heard):
        moved = msgspec.structs.replace(trusted, address=elsewhere)
        with (
            Coordinator(moved, timeout=5) as coordinator,
            pytest.raises(UnreachableError) as caught,
        ):
            coordinator.set_manifest(MANIFEST)
    assert caught.value.sent
    assert b"".join(heard).startswith(b"POST /api/v2/manifest")


def test_user_files_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    user = certify("alice")
    good = write_identity(tmp_path, user)
    encrypted, foreign = tmp_path / "encrypted.key", tmp_path / "foreign.key"
    encrypted.write_bytes(
        user.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"x"))
    )
    foreign.write_bytes(certify("bob").key_pem)
    peer = Peer.new()
    with serving(peer, tmp_path) as address:
        trusted = trust(peer, address)
        for key in (encrypted, foreign, tmp_path / "missing", good.certificate):
            with pytest.raises(ClientSetupError, match=str(key)):
                Coordinator(trusted, msgspec.structs.replace(good, key=key))

"""Workloads that run, at a real coordinator: renewal, changed secrets, and refusals."""

import json
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from support.living.channel import RunningWorkload, refusal
from support.living.deployment import channel_manifest, upload
from support.peers.https import make_pair
from support.process.command import run
from support.process.server import Server
from support.samples.deployment import user

from keyhouse.transparency.leaf import hidden_in_leaf
from keyhouse.wire import workload_pb2 as wire

pytestmark = pytest.mark.acceptance

MINUTE = 60 * 1_000_000


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A coordinator with a renewable type."""
    with Server(tmp_path / "living") as server:
        with server.client() as client:
            assert client.set_manifest(channel_manifest()).status == 200
        upload(server, bytes(16))
        yield server


def content(answer: Any, path: str) -> list[Any]:
    return [each.data or each.own for each in answer.files[path].piece]


def test_a_workload_renews_and_reads_changed_secrets(server: Server) -> None:
    workload = RunningWorkload(server.mesh_port)
    assert refusal(lambda: workload.call("Fetch", wire.FetchRequest())).code == "renew-first"
    public = workload.public_key()
    renewed = workload.renew()
    leaf = x509.load_der_x509_certificate(renewed.chain[0])
    own = leaf.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    assert own == public
    assert renewed.end - renewed.now <= 30 * MINUTE
    assert renewed.now < renewed.renew_at < renewed.end
    assert renewed.settle_seconds == 0
    assert len(renewed.marble_roots) == 1

    first = workload.call("Fetch", wire.FetchRequest())
    assert content(first, "/key") == [b"key ", bytes(16).hex().encode()]
    assert content(first, "/own.pem") == [
        wire.Own(member=wire.Own.CERT, form=wire.Own.PEM),
        b"-",
        wire.Own(member=wire.Own.PRIVATE, form=wire.Own.BASE64),
    ]
    root = x509.load_der_x509_certificate(renewed.marble_roots[0])
    assert content(first, "/roots.pem") == [root.public_bytes(Encoding.PEM)]
    assert first.env["PLAIN"].piece[0].data == b"text"
    assert first.env["MARBLE_PREDEFINED_PRIVATE_KEY"].piece[0].own.member == wire.Own.PRIVATE
    assert list(first.argv) == ["app", "-v"]
    assert first.rules == wire.Rules(signal="HUP", stop_at_end=True)
    assert list(first.marble_roots) == list(renewed.marble_roots)

    # Nothing has changed, also not by another renewal.
    workload.renew()
    again = workload.call("Fetch", wire.FetchRequest(have=first.version))
    assert (again.version, dict(again.files), dict(again.env)) == (first.version, {}, {})
    assert not again.argv
    assert not again.marble_roots
    watched = workload.call("Watch", wire.WatchRequest(have=first.version, once=True))
    assert (watched.version, watched.advice) == (first.version, wire.NONE)
    assert watched.poll_seconds == 60

    # An upload changes the files only.
    upload(server, bytes(15) + b"\1")
    watched = workload.call("Watch", wire.WatchRequest(have=first.version, once=True))
    assert watched.version.files != first.version.files
    assert watched.version.env == first.version.env
    assert watched.at.sequence > first.at.sequence
    changed = workload.call("Fetch", wire.FetchRequest(have=first.version, seen=watched.at))
    assert content(changed, "/key") == [b"key ", (bytes(15) + b"\1").hex().encode()]
    assert not changed.env


def test_an_update_needs_a_renewal_and_a_new_connection(server: Server) -> None:
    workload = RunningWorkload(server.mesh_port)
    before = workload.renew()
    with workload.connected() as connection:
        challenge = connection.call("Challenge", wire.ChallengeRequest())
        with server.client(user("writer")) as client:
            raised = b64encode(b'{"Packages": {"app": {"SecurityVersion": 2}}}').decode()
            assert client.post("/api/v2/update", {"manifest": raised}).status == 200
        renewal = wire.RenewRequest(nonce=challenge.nonce)
        assert refusal(lambda: connection.call("Renew", renewal)).code == "outdated-connection"
    assert refusal(lambda: workload.call("Fetch", wire.FetchRequest())).code == "renew-first"
    assert refusal(lambda: workload.call("Watch", wire.WatchRequest())).code == "renew-first"
    after = workload.renew()
    assert after.marble_roots != before.marble_roots
    assert after.settle_seconds == 120
    workload.call("Fetch", wire.FetchRequest())


def test_refusals_have_their_codes(server: Server) -> None:
    workload = RunningWorkload(server.mesh_port)
    workload.renew()
    stranger = RunningWorkload(server.mesh_port, "plain")
    for method, message in (
        ("Challenge", wire.ChallengeRequest()),
        ("Renew", wire.RenewRequest()),
        ("Fetch", wire.FetchRequest()),
        ("Watch", wire.WatchRequest()),
    ):
        refused = refusal(lambda: stranger.call(method, message))  # noqa: B023 called at once
        assert (refused.code, refused.status) == (
            "activate-again",
            grpc.StatusCode.UNAUTHENTICATED,
        )
    assert refusal(lambda: workload.renew(nonce=bytes(32))).code == "nonce"
    assert refusal(lambda: workload.renew(csr=b"")).code == "invalid"
    malformed = wire.WatchRequest(seen=wire.Place(epoch=1, sequence=1, chain=b"short"))
    assert refusal(lambda: workload.call("Watch", malformed)).code == "invalid"
    ahead = wire.Place(epoch=1, sequence=10_000, chain=bytes(8))
    assert refusal(lambda: workload.call("Watch", wire.WatchRequest(seen=ahead))).code == (
        "unavailable"
    )
    here = workload.call("Watch", wire.WatchRequest()).at
    other = wire.Place(epoch=here.epoch, sequence=here.sequence, chain=bytes(8))
    assert refusal(lambda: workload.call("Watch", wire.WatchRequest(seen=other))).code == "fork"
    assert refusal(lambda: workload.call("Fetch", wire.FetchRequest(seen=other))).code == "fork"


def test_the_lineages_survive_a_kill(server: Server) -> None:
    workload = RunningWorkload(server.mesh_port)
    workload.renew()
    server.kill()
    server.start()
    workload.call("Fetch", wire.FetchRequest())
    workload.renew()
    workload.call("Fetch", wire.FetchRequest())


def test_a_certificate_that_only_claims_a_lineage_is_not_enough(server: Server) -> None:
    """The key in the handshake decides, whatever a self-made certificate says."""
    workload = RunningWorkload(server.mesh_port)
    workload.renew()
    stranger = RunningWorkload(server.mesh_port)
    stranger.pair = make_pair("a stranger")
    assert refusal(lambda: stranger.call("Fetch", wire.FetchRequest())).code == "activate-again"


def test_a_user_revokes_and_every_method_refuses(server: Server) -> None:
    workload, other = RunningWorkload(server.mesh_port), RunningWorkload(server.mesh_port)
    workload.renew()
    other.renew()
    with server.client(user("reader")) as client:
        body = {"scope": "type", "marbleType": "app"}
        assert client.post("/api/v2/revocations", body).status == 403
    with server.client(user("writer")) as client:
        named = {"scope": "workload", "marbleType": "app", "uuid": workload.uuid.upper()}
        assert client.post("/api/v2/revocations", {**named, "reason": "a test"}).status == 200
        (revoked,) = client.get("/api/v2/revocations").data["workloads"]
        assert (revoked["uuid"], revoked["renews"]) == (workload.uuid, False)
        line = json.loads(client.get("/api/v2/update").data["updateLog"][-1])
        assert (line["update"], line["user"]) == ("Workloads revoked", "writer")
        assert (line["uuid"], line["reason"]) == (workload.uuid, "a test")
    for method, message in (
        ("Challenge", wire.ChallengeRequest()),
        ("Renew", wire.RenewRequest()),
        ("Fetch", wire.FetchRequest()),
        ("Watch", wire.WatchRequest()),
    ):
        refused = refusal(lambda: workload.call(method, message))  # noqa: B023 called at once
        assert (refused.code, refused.status) == ("revoked", grpc.StatusCode.PERMISSION_DENIED)
    other.call("Fetch", wire.FetchRequest())
    with server.client(user("writer")) as client:
        body = {"scope": "type", "marbleType": "app"}
        assert client.post("/api/v2/revocations", body).status == 200
    assert refusal(lambda: other.call("Fetch", wire.FetchRequest())).code == "renew-first"
    other.renew()
    other.call("Fetch", wire.FetchRequest())


def test_watchers_and_auditors_read_a_revocation_in_the_log(server: Server, tmp_path: Path) -> None:
    workload = RunningWorkload(server.mesh_port)
    workload.renew()
    simulation = server.data / "simulation"
    attestation = (
        *("--attestation", str(simulation / "attestation.json")),
        *("--simulation-root", str(simulation / "root.pem")),
    )
    host = f"127.0.0.1:{server.port}"
    watch = ("watch", host, "--once", "--json", "--state", str(tmp_path / "watched"), *attestation)
    first = [json.loads(line) for line in run(*watch).out.splitlines()]
    assert [each["kind"] for each in first][:4] == ["log-begun", "manifest-set", "trust", "started"]
    assert first[2]["text"].startswith("workloads trust the marble root ")
    assert "alert" not in first[2]
    with server.client(user("writer")) as client:
        body = {"scope": "workload", "marbleType": "app", "uuid": workload.uuid}
        assert client.post("/api/v2/revocations", body).status == 200
    (alert,) = [json.loads(line) for line in run(*watch).out.splitlines()]
    hidden = hidden_in_leaf(workload.uuid)
    assert (alert["kind"], alert["alert"], alert["why"]) == (
        "trust",
        True,
        ["workloads were revoked"],
    )
    assert alert["text"] == (
        f"writer revoked a workload of app, UUID {hidden[:23]}, claimed by the coordinator"
    )
    file = tmp_path / "evidence.json"
    ended = run("evidence", "export", host, "-o", str(file), *attestation)
    assert ended.code == 0, ended
    shown = json.loads(run("evidence", "show", str(file), "--json").out)
    (row,) = [each for each in shown["entries"] if each["claims"] == ["revocation"]]
    assert row["event"] == f"writer revoked a workload of app, UUID {hidden[:23]}"
    assert "in force" in shown["summary"]["marble roots"]


@pytest.mark.parametrize(
    ("body", "field", "status"),
    [
        ({}, "scope", 400),
        ({"scope": "package"}, "scope", 400),
        ({"scope": "type"}, "marbleType", 400),
        ({"scope": "workload", "marbleType": "app"}, "uuid", 400),
        ({"scope": "workload", "marbleType": "app", "uuid": "x"}, "uuid", 400),
        ({"scope": "type", "marbleType": "app", "platform": "00" * 16}, "platform", 400),
        ({"scope": "platform", "platform": "00" * 16}, "platform", 400),
        ({"scope": "platform", "platform": "zz"}, "platform", 400),
        ({"scope": "type", "marbleType": "app", "reason": "r" * 201}, "reason", 400),
        ({"scope": "type", "marbleType": "app"}, "", 404),
        ({"scope": "type", "marbleType": "nothing"}, "", 403),
    ],
)
def test_a_wrong_revocation_is_refused_by_its_field(
    revocable: Server, body: dict[str, str], field: str, status: int
) -> None:
    with revocable.client(user("writer")) as client:
        reply = client.post("/api/v2/revocations", body)
        assert reply.status == status
        if field:
            assert set(reply.envelope["data"]) == {field}
        empty: dict[str, list[str]] = {"workloads": [], "platforms": []}
        assert client.get("/api/v2/revocations").data == empty


@pytest.fixture(scope="module")
def revocable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A coordinator without workloads."""
    with Server(tmp_path_factory.mktemp("revocable") / "data") as server:
        with server.client() as client:
            assert client.set_manifest(channel_manifest()).status == 200
        yield server


def test_a_user_sees_only_the_types_that_the_user_may_revoke(server: Server) -> None:
    workload, plain = RunningWorkload(server.mesh_port), RunningWorkload(server.mesh_port, "other")
    workload.renew()
    plain.renew()
    with server.client(user("writer")) as client:
        for marble_type in ("app", "other"):
            body = {"scope": "type", "marbleType": marble_type}
            assert client.post("/api/v2/revocations", body).status == 200
        body = {"scope": "platform", "platform": "ab" * 16}
        assert client.post("/api/v2/revocations", body).status == 200

    def seen(name: str) -> tuple[list[str], list[str], int]:
        with server.client(user(name)) as client:
            listed = client.get("/api/v2/workloads").data
            revoked = client.get("/api/v2/revocations").data
            assert len(listed["roots"]) == 1
            return (
                sorted(each["marbleType"] for each in listed["workloads"]),
                sorted(each["marbleType"] for each in revoked["workloads"]),
                len(revoked["platforms"]),
            )

    assert seen("writer") == (["app", "other"], ["app", "other"], 1)
    assert seen("reader") == (["other"], ["other"], 0)
    with server.client(user("nobody")) as client:
        assert client.get("/api/v2/workloads").status == 403
        assert client.get("/api/v2/revocations").status == 403


def test_the_command_revokes_and_lists(server: Server, tmp_path: Path) -> None:
    workload = RunningWorkload(server.mesh_port)
    workload.renew()
    (tmp_path / "me.crt").write_bytes(user("writer").pem)
    (tmp_path / "me.key").write_bytes(user("writer").key_pem)
    machine = server.data / "simulation"
    target = (
        f"127.0.0.1:{server.port}",
        *("--cert", str(tmp_path / "me.crt"), "--key", str(tmp_path / "me.key")),
        *("--attestation", str(machine / "attestation.json")),
        *("--simulation-root", str(machine / "root.pem")),
    )
    ended = run("workload", "revocations", *target)
    assert (ended.code, ended.out) == (0, "nothing is revoked\n")
    fresh = RunningWorkload(server.mesh_port)
    ended = run("workload", "status", *target)
    lines = [line.split() for line in ended.out.splitlines()]
    assert sorted((line[1], line[-1]) for line in lines[1:]) == sorted(
        [(workload.uuid, "current"), (fresh.uuid, "yet")]
    )
    listed = [
        json.loads(each) for each in run("workload", "status", *target, "--json").out.splitlines()
    ]
    assert {each["uuid"]: each["renewed"] for each in listed} == {
        workload.uuid: True,
        fresh.uuid: False,
    }
    (root,) = json.loads(run("workload", "roots", *target, "--json").out)
    assert root["until"] == ""
    assert "in force" in run("workload", "roots", *target).out
    with server.client(user("writer")) as client:
        assert client.get("/api/v2/workloads?from=x").status == 400
        last = client.get("/api/v2/workloads?from=" + "f" * 32).data
        assert (last["workloads"], last["next"]) == ([], "")
    named = f"app/{workload.uuid}"
    ended = run("workload", "revoke", *target, "--workload", named, "--reason", "a test")
    assert ended.code == 0, ended
    assert ended.out.startswith(
        f"revoked {named}: 1 workload\nother workloads accept certificates until 2"
    )
    assert refusal(lambda: workload.call("Fetch", wire.FetchRequest())).code == "revoked"
    ended = run("workload", "revocations", *target)
    assert workload.uuid in ended.out
    ended = run("workload", "revoke", *target, "--platform", "ab" * 16)
    assert (ended.code, ended.out) == (0, f"revoked {'ab' * 16}: 0 workloads\n")
    told = json.loads(run("workload", "revoke", *target, "--type", "app", "--json").out)
    assert (told["workloads"], told["witnessed"], told["message"]) == (2, False, "")
    assert told["ends"] > "2"
    (found,) = json.loads(run("workload", "revocations", *target, "--json").out)["platforms"]
    assert (found["platform"], found["user"]) == ("ab" * 16, "writer")
    for wrong in ((), ("--type", "app", "--platform", "ab" * 16), ("--workload", "app")):
        assert run("workload", "revoke", *target, *wrong).code == 1

"""Manifests that say ``Witnessed``: old disks, copies, lying and failing witnesses."""

import base64
import json
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import grpc
import pytest
from support.cosigner import Cosigner
from support.living.deployment import channel_manifest
from support.peers.witness import Answered, Witness, policy
from support.peers.workloads import grpcio, request
from support.process.server import Reply, Server
from support.public_log import published_by
from support.samples.deployment import manifest, user
from support.samples.recovery import ciphertexts_of, hand_in, holders, recoverable
from support.witnessed import require_held, until, until_held, until_served, upload

from keyhouse.transparency.keys import VerifierKey
from keyhouse.transparency.leaf import (
    AnchorLeaf,
    LogBegunLeaf,
    TrustLeaf,
    hidden_in_leaf,
    object_name,
    read_leaf,
)
from keyhouse.transparency.note import Checkpoint, SignedNote
from keyhouse.transparency.policy import CosignaturePolicy
from keyhouse.transparency.tiles import bundled

pytestmark = pytest.mark.acceptance

DOWN = Answered(503)


class Deployment:
    """Three witnesses, of which two are enough, and a coordinator with its disk."""

    def __init__(self, folder: Path, witnesses: list[Witness]) -> None:
        self.folder = folder
        self.witnesses = witnesses
        self.server = Server(folder / "data")
        self.key = ""

    def transparency(self, **more: object) -> dict[str, object]:
        return {"Witnesses": policy(self.witnesses, 2), "Serve": "Witnessed", **more}

    def begin(self, raw: bytes | None = None, **more: object) -> Reply:
        """Set the manifest, and have all witnesses cosign for the log. Must run."""
        with self.server.client() as client:
            answer = client.set_manifest(raw or manifest(Transparency=self.transparency(**more)))
            assert answer.status == 200, answer.body
            self.key = client.get("/api/v2/log/key").data["verifierKey"]
        for witness in self.witnesses:
            witness.trust(self.key)
        return answer

    def answer(self) -> None:
        """Have the witnesses answer as they should again."""
        for witness in self.witnesses:
            witness.instead = None

    def fail(self, answer: Answered = DOWN, count: int = 3) -> None:
        for witness in self.witnesses[:count]:
            witness.instead = answer

    def copy(self, name: str) -> Path:
        shutil.copytree(self.server.data, self.folder / name)
        return self.folder / name

    def put_back(self, name: str) -> None:
        shutil.rmtree(self.server.data)
        shutil.copytree(self.folder / name, self.server.data)


@pytest.fixture(name="deployment")
def _deployment(tmp_path: Path) -> Iterator[Deployment]:
    with ExitStack() as stack:
        cosigners = (
            Cosigner.ed25519("a.example/w"),
            Cosigner.mldsa44("b.example/w"),
            Cosigner.ed25519("c.example/w"),
        )
        witnesses = [stack.enter_context(Witness(each)) for each in cosigners]
        yield Deployment(tmp_path, witnesses)


def update(server: Server, raw: bytes) -> Reply:
    """Apply the manifest ``raw`` as its only user who may: that begins an epoch."""
    with server.client(user("admin")) as client:
        sent = {"manifest": base64.b64encode(raw).decode()}
        answer = client.post("/api/v2/update", sent)
        assert answer.status == 200
        return answer


def test_a_new_log_waits_for_witnesses_to_know_its_key(deployment: Deployment) -> None:
    server = deployment.server
    with server:
        deployment.fail()
        deployment.begin()
        until_held(server, "witnesses have not cosigned the start")
        require_held(server)

        deployment.answer()
        until_served(server)

        upload(server, bytes(16))
        with server.client() as client:
            note = SignedNote.read(client.get("/api/v2/log/checkpoint").body)
        rules = CosignaturePolicy.read(policy(deployment.witnesses, 2))
        times = rules.require(note, VerifierKey.read(deployment.key))
        assert len(times) >= 2
        assert Checkpoint.read(note.text).size >= 3
    assert "a witness does not cosign" in server.logged()


def test_old_disk_is_held(deployment: Deployment) -> None:
    server = deployment.server
    with server:
        deployment.begin()
        until_served(server)
    deployment.copy("old")
    with server:
        until_served(server)
        upload(server, bytes(16))
    deployment.put_back("old")
    with server:
        until_held(server, "rolled back")
        require_held(server)
        with grpcio(server.mesh_port) as channel:
            ended = channel.call(request())
    assert ended.code is grpc.StatusCode.UNAVAILABLE
    assert "held: rolled back" in ended.message


def test_an_activation_with_a_limit_is_answered_when_witnesses_know_of_it(
    deployment: Deployment,
) -> None:
    server = deployment.server
    rules = deployment.transparency(AnchorBefore=["LimitedActivations"])
    content = json.loads(manifest(Transparency=rules))
    content["Marbles"]["app"]["MaxActivations"] = 1
    with server:
        deployment.begin(json.dumps(content).encode())
        until_served(server)
        with grpcio(server.mesh_port) as channel:
            ended = channel.call(request())
        assert ended.code is grpc.StatusCode.OK, ended
        with server.client() as client:
            note = SignedNote.read(client.get("/api/v2/log/checkpoint").body)
            size = Checkpoint.read(note.text).size
            entries = bundled(client.get(f"/api/v2/log/tile/entries/000.p/{size}").body, size)
    CosignaturePolicy.read(policy(deployment.witnesses, 2)).require(
        note, VerifierKey.read(deployment.key)
    )
    assert isinstance(read_leaf(entries[-1]), AnchorLeaf)


def test_a_revocation_is_answered_when_witnesses_know_of_it(deployment: Deployment) -> None:
    server = deployment.server
    content = json.loads(channel_manifest())
    content["Config"] = {"Transparency": deployment.transparency(AnchorBefore=["Revocations"])}
    with server:
        deployment.begin(json.dumps(content).encode())
        until_served(server)
        with server.client(user("writer")) as client:

            def revoke(number: int) -> Reply:
                body = {"scope": "platform", "platform": f"{number:02x}" * 16}
                answer = client.post("/api/v2/revocations", body)
                assert answer.status == 200
                return answer

            told = revoke(1)
            assert told.data == {"workloads": 0, "ends": "", "witnessed": True}
            note = SignedNote.read(client.get("/api/v2/log/checkpoint").body)
            size = Checkpoint.read(note.text).size
            entries = bundled(client.get(f"/api/v2/log/tile/entries/000.p/{size}").body, size)
            # Nobody cosigns: the revocation is durable, and the answer states the doubt.
            deployment.fail()
            doubted = revoke(2)
    CosignaturePolicy.read(policy(deployment.witnesses, 2)).require(
        note, VerifierKey.read(deployment.key)
    )
    leaf = read_leaf(entries[-1])
    assert isinstance(leaf, TrustLeaf)
    assert leaf.subjects == (("platform", hidden_in_leaf("01" * 16)),)
    assert doubted.data["witnessed"] is False
    assert "no quorum of the witnesses has cosigned" in doubted.envelope["message"]


def test_a_lost_state_continues_with_a_new_log(deployment: Deployment) -> None:
    server = deployment.server
    with server:
        deployment.begin()
        until_served(server)
        upload(server, b"kept" * 4)
    deployment.copy("old")
    with server:
        until_served(server)
        for turn in range(3):
            upload(server, bytes([turn]) * 16)
    deployment.put_back("old")
    given_up = VerifierKey.read(deployment.key).name
    server = Server(server.data, arguments=("--begin-new-log", given_up))
    with server:
        until_held(server, "witnesses have not cosigned the start")
        with server.client() as client:
            key = client.get("/api/v2/log/key").data["verifierKey"]
        for witness in deployment.witnesses:
            witness.trust(key)
        until_served(server)
        upload(server, bytes(16))
        server.kill()
    assert VerifierKey.read(key).name == f"{given_up}/2"
    with server:  # the log to give up is another one now
        until_served(server)
        with server.client() as client:
            assert client.get("/api/v2/log/key").data["verifierKey"] == key
            log = published_by(client)
            begun = log.leaves[0]
            assert isinstance(begun, LogBegunLeaf)
            in_force = client.get(f"/api/v2/log/object/{begun.manifest}").body
    assert begun.previous is not None
    assert (begun.previous.origin, begun.previous.reason) == (given_up, "--begin-new-log")
    assert (begun.manifest, begun.public) == (object_name(in_force), True)
    assert log.kinds == ["LogBegun", "Started", "SecretsUploaded", "Started"]


def test_a_recovered_old_disk_continues_with_a_new_log(deployment: Deployment) -> None:
    server, people = deployment.server, holders(2)
    rules = {"Transparency": deployment.transparency()}
    with server:
        shares = ciphertexts_of(deployment.begin(recoverable(people, Config=rules)))
        until_served(server)
    (server.data / "sealed_key").unlink()
    given_up = VerifierKey.read(deployment.key).name
    server = Server(server.data, arguments=("--begin-new-log", given_up))
    with server:
        with server.client() as client:
            for each in people:
                share = each.share(shares[each.name])
                assert hand_in(client, share, each.sign(share)).status == 200
            key = client.get("/api/v2/log/key").data["verifierKey"]
        for witness in deployment.witnesses:
            witness.trust(key)
        until_served(server)
        update(server, recoverable(people, secrets=4, Config=rules))
    with server:
        until_served(server)
        with server.client() as client:
            log = published_by(client)
    assert log.checkpoint.origin == f"{given_up}/2"
    assert log.kinds == ["LogBegun", "Recovered", "Started", "UpdateProposed", "ManifestUpdated",
                         "Started"]  # fmt: skip


def test_always_serves_and_says_what_is_missing(deployment: Deployment) -> None:
    server = deployment.server
    with server:
        deployment.fail()
        deployment.begin(Serve="Always")
        until(server, lambda text: "; served although witnesses have not cosigned" in text)
        upload(server, bytes(16))
        deployment.answer()
        until(server, lambda text: "served although" not in text)
    deployment.fail(Answered(409, b"1000000\n", "text/x.tlog.size"))
    with server:
        until(server, lambda text: "; served although rolled back" in text)
        upload(server, bytes(16))


def test_copy_is_held(deployment: Deployment) -> None:
    server = deployment.server
    with server:
        deployment.begin()
        until_served(server)
    copy = Server(deployment.copy("copy"))
    with server:
        until_served(server)
        with copy:
            until_held(copy, "forked")
            require_held(copy)
            upload(server, bytes(16))
            until_held(copy, "forked")
        until_served(server)


def test_of_two_running_copies_the_first_to_submit_continues(deployment: Deployment) -> None:
    server = deployment.server
    with server:
        deployment.begin()
        until_served(server)
        with Server(deployment.copy("copy")) as copy:  # of a coordinator that runs
            until_served(copy)
            until_served(server)  # both serve: the original has submitted nothing since

            upload(server, bytes(16))

            until_held(server, "forked")
            until_served(copy)


def test_a_copy_of_a_state_before_the_last_change_is_held(deployment: Deployment) -> None:
    server = deployment.server
    with server:
        deployment.begin()
        until_served(server)
        folder = deployment.copy("copy")
        upload(server, bytes(16))
        until_cosigned(deployment)
        with Server(folder) as copy:
            until_held(copy, "forked")
            until_served(server)


def until_cosigned(deployment: Deployment) -> None:
    """Wait until a quorum has cosigned every leaf that there is now."""
    with deployment.server.client() as client:
        size = Checkpoint.read(
            SignedNote.read(client.get("/api/v2/log/checkpoint?newest=true").body).text
        ).size
        for witness in deployment.witnesses[:2]:
            witness.until_kept(VerifierKey.read(deployment.key).name, size)


def test_replayed_cosignature_is_refused(deployment: Deployment) -> None:
    server = deployment.server
    with server:
        deployment.begin()
        until_served(server)
        with server.client() as client:
            note = SignedNote.read(client.get("/api/v2/log/checkpoint").body)
    kept = {(line.name, line.key_id): line for line in note.signatures}
    for witness in deployment.witnesses:
        key = witness.cosigner.verifier
        line = kept.get((key.name, key.key_id)) or witness.cosigner.line(note.text)
        witness.instead = Answered(200, line.encode())
    with server:
        until_held(server, "witnesses have not cosigned the start")
        require_held(server)
    assert "its cosignature is not valid" in server.logged()


def test_damaged_tiles_are_no_fork(deployment: Deployment) -> None:
    server = deployment.server
    rules = deployment.transparency()
    with server:
        deployment.begin(recoverable([], Config={"Transparency": rules}))
        until_served(server)
        update(server, recoverable([], secrets=4, Config={"Transparency": rules}))
    tiles = [each for each in server.data.glob("log/*/hashes/**/*") if each.is_file()]
    kept = {each: each.read_bytes() for each in tiles}
    for tile in tiles:
        tile.write_bytes(bytes(len(kept[tile])))
    with server:
        until_held(server, "files of the transparency log are damaged")
        with server.client(user("writer")) as client:
            assert client.get("/api/v2/secrets?s=key0").status == 503
    for tile, raw in kept.items():
        tile.write_bytes(raw)
    with server:
        until_served(server)
    assert 422 not in {status for witness in deployment.witnesses for status in witness.told}


def test_409_alone_decides_nothing(deployment: Deployment) -> None:
    server = deployment.server
    ahead = Answered(409, b"1000000\n", "text/x.tlog.size")
    with server:
        deployment.begin()
        until_served(server)
    deployment.fail(ahead, count=1)
    with server:
        until_served(server)
        upload(server, bytes(16))
    deployment.fail(ahead, count=2)
    with server:
        until_held(server, "rolled back")
        deployment.answer()
        require_held(server)  # until a restart
    with server:
        until_served(server)


def test_frozen_clock_ends_at_10000(deployment: Deployment) -> None:
    """The number is a setting, here 20; no time passes for the lease in this test."""
    server, most = deployment.server, 20
    with server:
        rules = deployment.transparency(LeaseOperations=most)
        deployment.begin(manifest(Transparency=rules, FeatureGates=["SignQuoteEndpoint"]))
        until_served(server)
        deployment.fail()
        with server.client() as client:  # of anybody nothing counts
            asked = [client.post("/api/v2/sign-quote", {}).status for _ in range(2 * most)]
        assert asked == [400] * (2 * most)
        with server.client(user("reader")) as client:
            answers = [client.get("/api/v2/secrets?s=shared").status for _ in range(2 * most)]
        assert answers == [200] * most + [503] * most
        until_held(server, "no quorum of the witnesses has cosigned for too long")
        require_held(server)
        deployment.answer()
        until_served(server)


def test_a_witness_that_never_answers_keeps_nobody_waiting(deployment: Deployment) -> None:
    server, rules = deployment.server, {"Transparency": deployment.transparency()}
    deployment.witnesses[2].speaks.clear()
    with server:
        deployment.begin(recoverable([], Config=rules))
        until_served(server)
        answers = (update(server, recoverable([], secrets=4 + n, Config=rules)) for n in range(9))
        assert any(
            answer.data["witnessed"] for answer in answers
        )  # on a busy machine not the first


def test_former_witnesses_cosign_first_also_after_a_restart(deployment: Deployment) -> None:
    server, former = deployment.server, deployment.witnesses
    cosigners = [Cosigner.ed25519(f"{name}.example/new") for name in "abc"]
    with ExitStack() as stack:
        others = [stack.enter_context(Witness(each)) for each in cosigners]
        with server:
            deployment.begin(recoverable([], Config={"Transparency": deployment.transparency()}))
            until_served(server)
            for witness in others:
                witness.trust(deployment.key)
            deployment.fail()
            rules = {**deployment.transparency(), "Witnesses": policy(others, 2)}
            answer = update(server, recoverable([], Config={"Transparency": rules}))
            assert answer.data["witnessed"] is False
            assert b"no quorum of the witnesses has cosigned this yet" in answer.body
            until_held(server, "witnesses have not cosigned the start")
        with server:
            until_held(server, "witnesses have not cosigned the start")
            require_held(server)
            assert [each.told for each in others] == [[], [], []]
            deployment.answer()
            until_served(server)
        for witness in former:
            witness.instead = DOWN
        with server:
            until_served(server)


def test_recovery_from_old_disk_is_held(deployment: Deployment) -> None:
    server = deployment.server
    people = holders(2)
    with server:
        answer = deployment.begin(
            recoverable(people, Config={"Transparency": deployment.transparency()})
        )
        until_served(server)
    shares = ciphertexts_of(answer)
    deployment.copy("old")
    with server:
        until_served(server)
        for turn in range(3):
            upload(server, bytes([turn]) * 16)
    deployment.put_back("old")
    (server.data / "sealed_key").unlink()
    with server:
        with server.client() as client:
            for each in people:
                share = each.share(shares[each.name])
                answer = hand_in(client, share, each.sign(share))
                assert answer.status == 200
        assert answer.data["witnessed"] is False
        assert "; held: " in answer.data["message"]
        until_held(server, "rolled back")
        require_held(server)

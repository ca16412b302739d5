"""Two people agree by signed approvals, over TLS; who was not there verifies that from the log."""

import hashlib
from pathlib import Path

import pytest
from support.peers.sdk import MODES, Mode, connected, trust_in_server
from support.process.server import Server
from support.public_log import read_log
from support.samples.deployment import user
from support.samples.updates import raise_version, together

from keyhouse.base.secret import Secret
from keyhouse.client import CallRefusedError, Coordinator, FileMemory, PemIdentity
from keyhouse.transparency import leaf
from keyhouse.transparency.approval import DecisionKind, SignedApproval
from keyhouse.transparency.tree import Frontier, leaf_hash

pytestmark = pytest.mark.acceptance

FIRST, NEW = together(), together(word="new")
SIGNED = (
    leaf.UpdateProposedLeaf,
    leaf.UpdateApprovedLeaf,
    leaf.UpdateCancelledLeaf,
    leaf.PackagesUpdatedLeaf,
)


def identity(name: str) -> PemIdentity:
    return PemIdentity(user(name).pem, Secret(user(name).key_pem))


def proven(session: Coordinator) -> list[tuple[str, DecisionKind, bytes]]:
    """Return who decided what about which bytes, as the log proves it."""
    root = session.trusted.root_der
    key = session.log_key()

    def read(path: str) -> bytes:
        found = session.log_checkpoint().note
        return found if path == "checkpoint" else session.log_part(path)

    found = read_log(read, root, key.verifier_key, key.signature)
    proofs = []
    for number, each in enumerate(found.leaves):
        if not isinstance(each, SIGNED):
            continue
        signed = SignedApproval.read(session.log_part(f"object/{each.approval}"))
        certificate = user(each.user).der
        assert each.certificate == hashlib.sha256(certificate).hexdigest()
        signed.verify(certificate)
        approval, size = signed.approval, signed.approval.head.size
        assert (approval.user, approval.root) == (each.user, hashlib.sha256(root).hexdigest())
        assert approval.origin == key.origin
        assert size <= number
        before = Frontier().extended(map(leaf_hash, found.entries[:size]))
        assert before.root.hex() == approval.head.root
        sent = session.log_part(f"object/{approval.manifest}")
        proofs.append((each.user, approval.decision, sent))
    return proofs


@pytest.mark.parametrize("mode", MODES)
def test_what_people_decide_is_signed_and_the_log_proves_it(tmp_path: Path, mode: Mode) -> None:
    with Server(tmp_path / "data") as server:
        where, trust = f"127.0.0.1:{server.port}", trust_in_server(server)
        memory = FileMemory(tmp_path / "memory")
        with Coordinator.connect(where, trust) as nobody:
            nobody.set_manifest(FIRST)
        with (
            connected(mode, where, trust, identity("alice"), memory=memory) as alice,
            connected(mode, where, trust, identity("bob")) as bob,
            connected(mode, where, trust, identity("releaser")) as releaser,
        ):
            plan = alice.plan(NEW)
            assert alice.update(NEW, plan=plan).signed
            bob.cancel()
            alice.update(NEW, plan=plan.digest)
            answer = bob.acknowledge(NEW)
            assert (answer.signed, answer.applied) == (True, True)
            assert releaser.update(raise_version(4)).signed
            with pytest.raises(CallRefusedError, match="pending"):
                bob.cancel()
        with Coordinator.connect(where, trust) as nobody:
            assert proven(nobody) == [
                ("alice", DecisionKind.PROPOSE, NEW),
                ("bob", DecisionKind.CANCEL, NEW),
                ("alice", DecisionKind.PROPOSE, NEW),
                ("bob", DecisionKind.APPROVE, NEW),
                ("releaser", DecisionKind.PACKAGES, raise_version(4)),
            ]

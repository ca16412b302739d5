"""Votes that users gave survive restarts, crashes and restarts of other coordinators.

They do not survive a recovery.
"""

import shutil
from pathlib import Path

import pytest
from support.peers.replicas import Replicas
from support.peers.sdk import trust_in_server
from support.process.server import Client, Server
from support.samples.deployment import user
from support.samples.recovery import Holder, ciphertexts_of, hand_in
from support.samples.updates import Api, holder_key, together

from keyhouse.base.secret import Secret
from keyhouse.client import Coordinator, PemIdentity
from keyhouse.manifest import fingerprint
from keyhouse_simulation import COORDINATOR

pytestmark = pytest.mark.acceptance

API = Api(2)
OWN = {"UniqueID": COORDINATOR.unique_id.hex()}


def agreed(word: str, *users: str) -> bytes:
    """Return a manifest that all of ``users`` have to agree to change."""
    return together(updaters=users, word=word, UpdateThreshold=len(users), Replicas={"Code": [OWN]})


def in_force(client: Client) -> str:
    return str(client.get("/api/v2/manifest").data["manifestFingerprint"])


@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_a_vote_that_was_answered_survives_a_restart(tmp_path: Path, how: str) -> None:
    first, following = agreed("first", "alice", "bob", "carol"), agreed("next", "alice")
    server = Server(tmp_path / "data").start()
    with server.client() as anyone, server.client(user("alice")) as alice:
        assert anyone.set_manifest(first).status == 200
        assert API.update(alice, following).status == 200
    for name in ("bob", "carol"):
        server.stop() if how == "stopped" else server.kill()
        server.start()
        with server.client(user(name)) as voter:
            assert API.acknowledge(voter, following).status == 200
    with server.client() as anyone:
        assert in_force(anyone) == fingerprint(following)
    server.stop()


def test_votes_that_another_coordinator_took_meanwhile_are_kept(replicas: Replicas) -> None:
    (one,) = replicas.founded(1, agreed("first", "alice", "bob"))
    other = replicas.elsewhere().start()
    following = agreed("next", "alice")
    other.kill()
    with one.client(user("alice")) as alice:
        assert API.update(alice, following).status == 200
    other.start()  # its own seal is of a place before the vote: the other one vouches for it
    with other.client(user("bob")) as bob:
        assert API.acknowledge(bob, following).status == 200
        assert in_force(bob) == fingerprint(following)


def test_a_recovery_ends_an_update_whose_votes_are_signed(tmp_path: Path) -> None:
    """Alice has cancelled the update since. The host shows a copy from before that."""
    first = together(updaters=["alice", "bob"], holders=["holder0"], word="first")
    following = together(updaters=["alice", "bob"], holders=["holder0"], word="next")
    server, old = Server(tmp_path / "data"), tmp_path / "old"
    with server, server.client() as anyone:
        shares = ciphertexts_of(anyone.set_manifest(first))
        alice = PemIdentity(user("alice").pem, Secret(user("alice").key_pem))
        with Coordinator.connect(
            f"127.0.0.1:{server.port}", trust_in_server(server), alice
        ) as session:
            assert session.update(following).signed
            server.kill()
            shutil.copytree(server.data, old)
            server.start()
            session.cancel()
    (old / "sealed_key").unlink()
    with Server(old) as recovered:
        good = Holder("holder0", holder_key("holder0"))
        share = good.share(shares[good.name])
        with recovered.client() as anyone:
            assert hand_in(anyone, share, good.sign(share)).status == 200
        assert "the pending update ended with the recovery" in recovered.logged()
        with recovered.client(user("bob")) as bob:
            assert API.acknowledge(bob, following).status == 404
            assert in_force(bob) == fingerprint(first)
            assert API.update(bob, following).status == 200  # it is proposed again

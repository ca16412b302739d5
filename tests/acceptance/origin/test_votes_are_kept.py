"""Votes that users gave survive restarts, crashes and restarts of other coordinators."""

from pathlib import Path

import pytest
from support.peers.replicas import Replicas
from support.process.server import Client, Server
from support.samples.deployment import user
from support.samples.updates import Api, together

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

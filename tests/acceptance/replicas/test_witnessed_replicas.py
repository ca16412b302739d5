"""Replicas with witnesses: each has its own lease, and one that was faster is not a rollback."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from support.cosigner import Cosigner
from support.peers.replicas import Replicas, manifest
from support.peers.witness import Answered, Witness, policy
from support.process.server import Server
from support.samples.deployment import user
from support.witnessed import until_held, until_served

pytestmark = pytest.mark.acceptance


@pytest.fixture
def witnesses() -> Iterator[list[Witness]]:
    with ExitStack() as stack:
        cosigners = [Cosigner.ed25519(f"{name}.example") for name in "abc"]
        yield [stack.enter_context(Witness(each)) for each in cosigners]


def founded(replicas: Replicas, witnesses: list[Witness]) -> list[Server]:
    """Return two replicas, which serve because a quorum of ``witnesses`` knows each."""
    rules = {"Witnesses": policy(witnesses, 2), "Serve": "Witnessed", "LeaseOperations": 30}
    servers = replicas.founded(2, manifest(Transparency=rules))
    with servers[0].client() as client:
        key = client.get("/api/v2/log/key").data["verifierKey"]
    for witness in witnesses:
        witness.trust(key)
    for server in servers:
        until_served(server)
    return servers


def test_replicas_with_witnesses_take_turns(replicas: Replicas, witnesses: list[Witness]) -> None:
    first, second = founded(replicas, witnesses)
    with first.client(user("writer")) as one, second.client(user("writer")) as other:
        for turn in range(40):
            for client in (one, other):
                answer = client.upload({"note": b"%d" % turn})
                assert answer.status in {200, 503}, answer.body  # 503: its lease ended
    for server in (first, second):
        until_served(server)
        assert "witnesses refuse this state" not in server.logged()
        assert "leaves; this log has" not in server.logged()  # one was faster, which is no alarm
        with server.client(user("writer")) as client:
            assert client.upload({"note": b"at the end"}).status == 200


def test_a_replica_says_that_its_database_is_rolled_back_until_it_is_not(
    replicas: Replicas, witnesses: list[Witness]
) -> None:
    first, second = founded(replicas, witnesses)
    for witness in witnesses[:2]:
        witness.instead = Answered(409, b"1000000\n", "text/x.tlog.size")
    second.stop()
    second.start()
    until_held(second, "rolled back")
    assert second.logged().count("witnesses refuse this state") == 1
    for witness in witnesses:
        witness.instead = None
    until_served(second)
    until_served(first)

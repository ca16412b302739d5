"""Replicas with witnesses: each has its own lease, and one that was faster is no rollback."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from support.cosigner import Cosigner
from support.peers.postgres import PostgresServer
from support.peers.replicas import Replicas, manifest
from support.peers.witness import Witness, policy
from support.samples.deployment import user
from support.witnessed import until_served

pytestmark = pytest.mark.acceptance


@pytest.fixture
def replicas(postgres: PostgresServer, tmp_path: Path) -> Iterator[Replicas]:
    found = Replicas(tmp_path, postgres.url(asyncio.run(postgres.database())))
    yield found
    found.end()


def test_replicas_with_witnesses_take_turns(replicas: Replicas) -> None:
    with ExitStack() as stack:
        cosigners = [Cosigner.ed25519(f"{name}.example") for name in "abc"]
        witnesses = [stack.enter_context(Witness(each)) for each in cosigners]
        rules = {"Witnesses": policy(witnesses, 2), "Serve": "Witnessed", "LeaseOperations": 30}
        first, second = replicas.founded(2, manifest(Transparency=rules))
        with first.client() as client:
            key = client.get("/api/v2/log/key").data["verifierKey"]
        for witness in witnesses:
            witness.trust(key)
        for server in (first, second):
            until_served(server)
        with first.client(user("writer")) as one, second.client(user("writer")) as other:
            for turn in range(40):
                for client in (one, other):
                    answer = client.upload({"note": b"%d" % turn})
                    assert answer.status in {200, 503}, answer.body  # 503: its lease ended
        for server in (first, second):
            until_served(server)
            assert "witnesses refuse this state" not in server.logged()
            with server.client(user("writer")) as client:
                assert client.upload({"note": b"at the end"}).status == 200

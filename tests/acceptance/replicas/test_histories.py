"""All that eight clients of two replicas are told could have come from one coordinator."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.peers.postgres import PostgresServer
from support.peers.replicas import Replicas
from support.replicas.histories import Clients, shared_manifest


@pytest.fixture
def replicas(postgres: PostgresServer, tmp_path: Path) -> Iterator[Replicas]:
    found = Replicas(tmp_path, postgres.url(asyncio.run(postgres.database())))
    yield found
    found.end()


def test_replicas_die_and_the_database_restarts(
    replicas: Replicas, postgres: PostgresServer
) -> None:
    servers = replicas.founded(2, shared_manifest())
    clients = Clients(servers)
    with clients.running():
        clients.progress()
        servers[0].kill()
        clients.progress()
        servers[0].start()
        with postgres.away():
            pass
        clients.progress()
        servers[1].kill()
        clients.progress()
    clients.judge()


def test_a_permission_comes_and_goes(replicas: Replicas) -> None:
    clients = Clients(replicas.founded(2, shared_manifest()))
    with clients.running(updates=True):
        clients.progress()
    clients.judge()

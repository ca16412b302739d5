"""All that eight clients of two replicas are told could have come from one coordinator."""

from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest
from support.peers.postgres import PostgresServer
from support.peers.replicas import Replicas
from support.replicas.histories import Clients, shared_manifest
from support.replicas.porcupine import Porcupine, porcupine_built


@pytest.fixture(scope="module")
def porcupine() -> Iterator[Porcupine | None]:
    """Give a second opinion, where there is one: the first one is asked for in any case."""
    with ExitStack() as stack:
        found = None
        with suppress(pytest.skip.Exception):
            found = stack.enter_context(porcupine_built())
        yield found


def test_replicas_die_and_the_database_restarts(
    replicas: Replicas, postgres: PostgresServer, porcupine: Porcupine | None
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
    clients.judge(porcupine)


def test_a_permission_comes_and_goes(replicas: Replicas, porcupine: Porcupine | None) -> None:
    clients = Clients(replicas.founded(2, shared_manifest()))
    with clients.running(updates=True):
        clients.progress()
    clients.judge(porcupine)

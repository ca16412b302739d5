"""A cluster of the tests: its primary is killed and starts again, and its standby takes over."""

import asyncio

from support.peers.postgres import PostgresServer
from support.replicas.cluster import Cluster

WRITES = "SELECT NOT pg_is_in_recovery()"
FOLLOWED = "SELECT sync_state FROM pg_stat_replication"


def ask(node: PostgresServer, statement: str) -> list[tuple[object, ...]]:
    return asyncio.run(node.ask(statement))


def test_nodes_fail_and_are_replaced() -> None:
    with Cluster.running() as cluster:
        first = cluster.writer
        ask(first, "CREATE TABLE kept (value int)")
        first.crash()
        first.start()
        cluster.await_standby()
        ask(first, "INSERT INTO kept VALUES (1)")
        old = cluster.promote()
        assert old is first
        assert ask(old, WRITES) == ask(cluster.writer, WRITES) == [(True,)]
        cluster.rebuild()
        cluster.remove(old)
        assert not old.is_running
        assert ask(cluster.writer, FOLLOWED) == [("sync",)]
        assert ask(cluster.standby, "SELECT value FROM kept") == [(1,)]
        assert ask(cluster.standby, WRITES) == [(False,)]

"""Commits that a standby has not seen yet, and a standby that takes over, under eight clients."""

import asyncio
from pathlib import Path

import pytest
from support.peers.postgres import PostgresServer
from support.peers.replicas import Load, Replicas

WAITING = (
    "SELECT pid{} FROM pg_stat_activity"
    " WHERE wait_event = 'SyncRep' AND pid <> ALL ('{{{}}}'::int[])"
)


@pytest.mark.parametrize("strike", ["pg_cancel_backend(pid)", "pg_terminate_backend(pid)"])
def test_a_commit_that_is_cut_short_while_it_waits_for_a_standby(
    postgres: PostgresServer, tmp_path: Path, strike: str
) -> None:
    """PostgreSQL keeps what no standby has then, and tells of success, or of nothing."""
    replicas = Replicas(tmp_path, postgres.url(asyncio.run(postgres.database())))
    try:
        with Load(replicas.founded()).running() as load:
            load.progress()
            asyncio.run(postgres.awaited("missing"))
            try:
                _until(postgres, WAITING.format("", ""))
                before = load.count()
                struck = asyncio.run(postgres.ask(WAITING.format(f", {strike}", "")))
                # Whatever comes next waits for the standby as well: nothing is acknowledged.
                others = ",".join(str(pid) for pid, _ in struck)
                _until(postgres, WAITING.format("", others))
                assert load.count() == before
            finally:
                asyncio.run(postgres.awaited(""))
            load.progress()
        load.check(replicas.events())
    finally:
        replicas.end()


def test_a_standby_takes_over(tmp_path: Path) -> None:
    with PostgresServer.running() as primary:
        name = asyncio.run(primary.database())
        with primary.with_standby() as standby:
            url = primary.url(name, primary.folder, standby.folder)
            replicas = Replicas(tmp_path, url)
            try:
                servers = replicas.founded()
                strict = replicas.started("--store-standbys", "1")
                with strict.client() as client:
                    told = client.get("/api/v2/status").data["message"]
                    assert "on at least 2 machines" in told
                with Load(servers).running() as load:
                    load.progress()
                    primary.kill()
                    standby.promote()
                    load.progress()
                    with strict.client() as client:  # what is written now is on one machine
                        assert client.get("/api/v2/status").status == 503
                load.check(replicas.events())
                replicas.started()  # a third one finds all of it as well
            finally:
                replicas.end()


def _until(server: PostgresServer, statement: str) -> None:
    """Return once ``statement`` has rows."""
    while not asyncio.run(server.ask(statement)):
        pass

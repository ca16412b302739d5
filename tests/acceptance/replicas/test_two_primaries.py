"""A standby that was promoted while the primary still runs: two databases take writes."""

import asyncio
import base64
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest
from support.peers.postgres import PostgresServer
from support.peers.replicas import NAMES, Replicas, manifest
from support.process.server import Server
from support.samples.deployment import user


class Split(NamedTuple):
    """Two servers, the second not promoted yet, and a replica that turns to each of them first."""

    primary: PostgresServer
    standby: PostgresServer
    old: Server
    new: Server

    def promote(self) -> None:
        """Make the standby a primary as well, and have ``new`` connect again, to that."""
        self.standby.promote()
        end = (
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'new'"
        )
        # A connection may open while others end, so all are ended until none is left.
        while asyncio.run(self.primary.ask(end)):
            pass


@pytest.fixture
def arguments() -> tuple[str, ...]:
    """Return what both replicas are started with."""
    return ()


@pytest.fixture
def split(tmp_path: Path, arguments: tuple[str, ...]) -> Iterator[Split]:
    with PostgresServer.running() as primary:
        name = asyncio.run(primary.database())
        with primary.with_standby() as standby:
            folders = [primary.folder, standby.folder]
            replicas = Replicas(
                tmp_path, primary.url(name, *folders, extra="&application_name=old")
            )
            try:
                old = replicas.started(*arguments)
                with old.client() as client:
                    assert client.set_manifest(manifest()).status == 200
                replicas.url = primary.url(name, *folders[::-1], extra="&application_name=new")
                yield Split(primary, standby, old, replicas.started(*arguments))
            finally:
                replicas.end()


def upload(server: Server, value: bytes) -> int:
    with server.client(user("writer")) as client:
        client.connection.timeout = 60
        return client.upload({NAMES[0]: value}).status


def read(server: Server) -> bytes | None:
    with server.client(user("writer")) as client:
        client.connection.timeout = 60
        return client.secrets(NAMES[:1])[NAMES[0]]


def asked_at_least(server: Server, place: str) -> tuple[int, bytes]:
    """Return what a client is told that has seen ``place``."""
    with server.client() as client:
        client.connection.request("GET", "/api/v2/status", headers={"Keyhouse-At-Least": place})
        answer = client.connection.getresponse()
        return answer.status, answer.read()


def test_two_primaries_are_noticed_and_nothing_of_both_is_mixed(split: Split) -> None:
    assert upload(split.new, b"before") == 200
    split.promote()
    assert upload(split.new, b"after") == 200
    with ThreadPoolExecutor(1) as thread:
        fork = thread.submit(upload, split.old, b"fork")
        # The old primary awaits a standby that it has no more: it acknowledges nothing.
        waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
        while not asyncio.run(split.primary.ask(waiting)):
            assert not fork.done()
        assert not fork.done()
        # It does where an operator has it await none.
        asyncio.run(split.primary.awaited(""))
        assert fork.result() == 200
    with split.old.client() as client:
        place = client.get("/api/v2/status").headers["keyhouse-state"]
    split.primary.kill()
    assert split.old.process is not None
    assert split.old.process.wait(60) == 1
    assert "the journal was rolled back and then continued" in split.old.logged()
    assert read(split.new) == b"after"
    assert upload(split.new, b"later") == 200
    status, told = asked_at_least(split.new, place)
    assert status == 409, told


@pytest.mark.parametrize("arguments", [("--store-standbys", "1")])
def test_a_former_primary_answers_no_read(split: Split) -> None:
    """The replica that reaches it says nothing old, and passes over to the new primary."""
    assert upload(split.new, b"before") == 200
    assert read(split.old) == b"before"
    split.promote()
    with split.standby.with_standby():
        while upload(split.new, b"after") != 200:
            pass
        assert split.primary.is_running
        while True:
            with split.old.client(user("writer")) as client:
                client.connection.timeout = 60
                reply = client.get(f"/api/v2/secrets?s={NAMES[0]}")
            if reply.status == 200:
                break
            assert reply.status == 503, reply
        assert base64.b64decode(reply.data["secrets"][NAMES[0]]["private"]) == b"after"
        assert upload(split.old, b"later") == 200
        assert read(split.new) == b"later"

"""Several coordinators behind one address: `keyhouse serve --replicas`."""

import os
import select
import signal

from support.peers.joined import asked_to_join
from support.peers.postgres import PostgresServer
from support.peers.replicas import Load, Replicas, manifest
from support.process.server import PATIENCE, Server, children
from support.samples.deployment import user

SERVING = '"serving the Client API"'


def children_of(server: Server) -> list[int]:
    assert server.process is not None
    return children(server.process.pid)


def answering(server: Server) -> set[str]:
    """Return which replicas answer, once two do, and both activate workloads meanwhile."""
    found: set[str] = set()
    while len(found) < 2:
        with server.client() as client:
            found.add(client.get("/api/v2/status").headers["keyhouse-replica"])
        assert asked_to_join(server, "app").answer is not None
    return found


def ended(number: int) -> bool:
    """Return whether the process ends, which is not a child of this one, within the patience."""
    try:
        handle = os.pidfd_open(number)
    except ProcessLookupError:
        return True
    try:
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        return bool(poll.poll(PATIENCE * 1000))
    finally:
        os.close(handle)


def test_one_of_two_is_killed_and_nothing_is_lost(replicas: Replicas) -> None:
    server = replicas.started("--replicas", "2")
    with server.client() as client:
        assert client.set_manifest(manifest()).status == 200
    before = answering(server)
    with Load([server]).running() as load:
        load.progress()
        os.kill(children_of(server)[0], signal.SIGKILL)
        load.progress()
        while server.logged().count(SERVING) < 3:
            load.progress(1)
        after = answering(server)
        load.progress()
    numbers = children_of(server)
    assert server.stop() == 0
    assert all(map(ended, numbers))
    assert len(before & after) == 1
    assert all(f'"instance": "{each}"' in server.logged() for each in before | after)
    assert server.logged().count('"all replicas have stopped"') == 1
    load.check(replicas.events())


def test_nothing_is_lost_when_the_journal_is_compacted_meanwhile(replicas: Replicas) -> None:
    server = replicas.started("--replicas", "2")
    with server.client() as client:
        assert client.set_manifest(manifest()).status == 200
    with Load([server]).running() as load:
        load.progress()
        with server.client(user("writer")) as client:
            while '"the journal was compacted"' not in server.logged():
                assert client.upload({"note": bytes(1 << 20)}).status == 200
        load.progress()
    assert server.stop() == 0
    load.check(replicas.events())


def test_replicas_end_with_their_parent_and_as_many_start_again(replicas: Replicas) -> None:
    server = replicas.started("--replicas", "2")
    with server.client() as client:
        assert client.set_manifest(manifest()).status == 200
    answering(server)
    numbers = children_of(server)
    server.kill()
    assert all(map(ended, numbers))
    server.start()
    answering(server)
    assert server.stop() == 0


def test_the_parent_ends_when_no_replica_can_start(
    replicas: Replicas, postgres: PostgresServer
) -> None:
    server = replicas.prepared("--replicas", "2")
    with postgres.away(), server.log.open("ab") as log:
        server.process = server._start(log)
        assert server.process.wait(PATIENCE) == 1
    assert '"no replica is left"' in server.logged()

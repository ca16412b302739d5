"""The lasting stream of ``Watch`` at a real coordinator: changes, and each end of a stream."""

import signal
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from support.living.channel import RunningWorkload
from support.living.deployment import channel_manifest, update, upload
from support.process.server import Server
from support.samples.deployment import user

from keyhouse.wire import workload_pb2 as wire

pytestmark = pytest.mark.acceptance


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A coordinator with a renewable type."""
    with Server(tmp_path / "living") as server:
        with server.client() as client:
            assert client.set_manifest(channel_manifest()).status == 200
        upload(server, bytes(16))
        yield server


@pytest.fixture
def workload(server: Server) -> RunningWorkload:
    """A workload with a key of its own."""
    workload = RunningWorkload(server.mesh_port)
    workload.renew()
    return workload


def revoke(server: Server, **named: str) -> None:
    with server.client(user("writer")) as client:
        assert client.post("/api/v2/revocations", named).status == 200


def test_each_upload_is_a_message(server: Server, workload: RunningWorkload) -> None:
    with workload.connected() as connection:
        stream = connection.watch()
        messages = [stream.next()]
        for number in (1, 2, 3):
            upload(server, bytes(15) + bytes([number]))
            messages.append(stream.next())
        assert len({each.version.files for each in messages}) == 4
        assert len({each.version.env for each in messages}) == 1
        assert {each.advice for each in messages} == {wire.NONE}
        # One workload: a millisecond for each.
        assert messages[1].spread_ms == 1
        # The digests of the stream are the digests of Fetch.
        fetched = connection.call("Fetch", wire.FetchRequest(have=messages[-1].version))
        assert (fetched.version, dict(fetched.files)) == (messages[-1].version, {})
        assert messages[-1].at.sequence > messages[0].at.sequence


def test_an_upload_of_the_same_value_is_no_message(
    server: Server, workload: RunningWorkload
) -> None:
    with workload.connected() as connection:
        stream = connection.watch()
        first = stream.next()
        upload(server, bytes(16))
        upload(server, bytes(15) + b"\1")
        changed = stream.next()
        assert changed.version.files != first.version.files


def test_an_update_gives_a_time_and_ends_the_stream(
    server: Server, workload: RunningWorkload
) -> None:
    with workload.connected() as connection:
        stream = connection.watch()
        first = stream.next()
        update(server)
        last = stream.next()
        assert (last.advice, last.spread_ms) == (wire.RENEW, 10)
        assert last.version.certificate != first.version.certificate
        end = stream.end()
        assert (end.code, end.status) == ("renew-first", grpc.StatusCode.FAILED_PRECONDITION)
    workload.renew()
    with workload.connected() as connection:
        message = connection.watch(wire.WatchRequest(have=last.version)).next()
        assert message.version == last.version


def test_a_revocation_of_the_workload_ends_the_stream_at_once(
    server: Server, workload: RunningWorkload
) -> None:
    other = RunningWorkload(server.mesh_port)
    other.renew()
    with workload.connected() as connection, other.connected() as second:
        stream, kept = connection.watch(), second.watch()
        stream.next()
        kept.next()
        revoke(server, scope="workload", marbleType="app", uuid=workload.uuid)
        end = stream.end()
        assert (end.code, end.status) == ("revoked", grpc.StatusCode.PERMISSION_DENIED)
        upload(server, bytes(15) + b"\1")
        kept.next()


def test_a_revocation_of_the_type_asks_for_a_renewal(
    server: Server, workload: RunningWorkload
) -> None:
    with workload.connected() as connection:
        stream = connection.watch()
        stream.next()
        revoke(server, scope="type", marbleType="app")
        assert stream.next().advice == wire.RENEW
        assert stream.end().code == "renew-first"


def test_a_renewal_ends_the_stream_of_the_former_key(
    server: Server, workload: RunningWorkload
) -> None:
    del server
    with workload.connected() as connection:
        stream = connection.watch()
        stream.next()
        workload.renew()
        end = stream.end()
        assert (end.code, end.status) == ("outdated-connection", grpc.StatusCode.UNAVAILABLE)
    with workload.connected() as connection:
        connection.watch().next()


def test_a_third_stream_ends_the_oldest(server: Server, workload: RunningWorkload) -> None:
    with workload.connected() as one, workload.connected() as two:
        oldest = one.watch()
        oldest.next()  # the coordinator may read two connections in either order
        kept = two.watch()
        kept.next()
        newest = two.watch()
        newest.next()
        end = oldest.end()
        assert (end.code, end.status) == ("unavailable", grpc.StatusCode.UNAVAILABLE)
        upload(server, bytes(15) + b"\1")
        assert kept.next().version == newest.next().version


def test_a_coordinator_that_stops_sends_its_watchers_away(
    server: Server, workload: RunningWorkload
) -> None:
    with workload.connected() as connection:
        stream = connection.watch()
        stream.next()
        assert server.process is not None
        server.process.send_signal(signal.SIGTERM)
        assert stream.next().advice == wire.GO_ELSEWHERE
        end = stream.end()
        assert (end.code, end.status) == ("unavailable", grpc.StatusCode.UNAVAILABLE)
        server.process.wait(20)


def test_a_client_that_leaves_frees_its_stream(server: Server, workload: RunningWorkload) -> None:
    for _ in range(8):
        with workload.connected() as connection:
            connection.watch().next()
    upload(server, bytes(15) + b"\1")
    with workload.connected() as connection:
        stream = connection.watch()
        stream.next()
        upload(server, bytes(15) + b"\2")
        stream.next()

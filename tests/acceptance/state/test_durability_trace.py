"""What the system was asked for, in which order: nothing is answered that a power cut could take.

The real process runs under strace. A change is durable when every byte that was written below the
state directory has been synced, and every name in it too, before the first byte of the answer.
"""

import threading
from pathlib import Path

import pytest
from support.peers.workloads import Http2Wire, framed, request
from support.process.server import Client, Server
from support.process.strace import Call, Durability, read_trace, tracer
from support.samples.activation import marble_manifest
from support.samples.deployment import User, manifest, user

from keyhouse.wire.marble_pb2 import ActivationResp

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(120)]

UPLOADS = 5
WRITERS = 4
ACTIVATIONS = 3
COUNTS = 4
PARAMETERS = 1000  # bytes that the answer to an activation has at least, and nothing else has
GOODBYE = 24  # bytes of a TLS 1.3 record with an alert, such as close_notify


def traced(folder: Path) -> tuple[Server, Path]:
    """Return a coordinator that will be traced, and where to."""
    output = folder / "trace"
    return Server(folder / "state" / "data", wrapper=tracer(output)), output


def own_port(client: Client) -> int:
    port = client.connection.sock.getsockname()[1]
    assert isinstance(port, int)
    return port


def calls_on(calls: list[Call], port: int) -> list[Call]:
    """Return what was received and sent on the connection from ``port``."""
    ends = f":{port}]"
    return [call for call in calls if call.target.endswith(ends) and call.result > 0]


def last_answers(calls: list[Call], port: int, count: int) -> list[tuple[Call, Call]]:
    """Return, for the last ``count`` requests, the end of the request and its answer.

    The answer is the last thing sent before the next request: what ends the handshake goes first.
    """
    pairs: list[tuple[Call, Call]] = []
    received = None
    for call in calls_on(calls, port):
        if call.receives:
            received = call
        elif call.sends and received is not None and call.result != GOODBYE:
            if pairs and pairs[-1][0] is received:
                pairs.pop()
            pairs.append((received, call))
    assert len(pairs) >= count
    return pairs[-count:]


def test_nothing_is_answered_that_is_not_durable(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    server, output = traced(tmp_path)
    with server, server.client() as anyone, server.client(user("writer")) as writer:
        assert anyone.set_manifest(manifest()).status == 200
        setting = own_port(anyone)
        for number in range(UPLOADS):
            assert writer.upload({"key0": number.to_bytes(16)}).status == 200
        uploading = own_port(writer)
        assert server.stop() == 0
        assert server.process is not None
        calls = read_trace(output, server.process.pid)
    answers = last_answers(calls, setting, 1) + last_answers(calls, uploading, UPLOADS)
    hold_durable(server.data, calls, answers)


def hold_durable(data: Path, calls: list[Call], answers: list[tuple[Call, Call]]) -> None:
    """Hold that before each answer all was durable, and synced since the end of its request.

    Also on a file system on which syncing a directory does nothing.
    """
    for directories in (True, False):
        _hold_durable(Durability(data, directories=directories), data, calls, answers)


def _hold_durable(
    disk: Durability, data: Path, calls: list[Call], answers: list[tuple[Call, Call]]
) -> None:
    synced = 0
    for call in calls:
        for asked, answer in answers:
            if call is answer:
                assert (disk.bytes, disk.names) == (set(), set())
                assert synced > asked.ended  # and it was for this request
        disk.see(call)
        if call.syncs and call.target.startswith(str(data)):
            synced = call.began
    assert (disk.bytes, disk.names) == (set(), set())  # as the process ends, too


def activate(wire: Http2Wire) -> User:
    """Let a workload with a limit join; return it as a client of the Client API."""
    answer = wire.call(framed(request(MarbleType="limited").SerializeToString()))
    env = ActivationResp.FromString(answer.data[5:]).Parameters.Env
    chain = env["MARBLE_PREDEFINED_MARBLE_CERTIFICATE_CHAIN"]
    return User(b"", chain, env["MARBLE_PREDEFINED_PRIVATE_KEY"])


def test_limited_activations_and_counters_are_durable_before_their_answers(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    raw = marble_manifest(
        {"limited": {"Package": "app", "MaxActivations": ACTIVATIONS}},
        Config={"FeatureGates": ["MonotonicCounter"]},
    )
    server, output = traced(tmp_path)
    with server:
        with server.client() as anyone:
            assert anyone.set_manifest(raw).status == 200
        with Http2Wire(server.mesh_port) as wire:
            joining: int = wire.tls.getsockname()[1]
            wire.begin().settle()  # what is received last before an answer is its request
            workload = [activate(wire) for _ in range(ACTIVATIONS)][-1]
        with server.client(workload) as client:
            for value in range(COUNTS):
                body = {"name": "boots", "value": value + 1}
                assert client.post("/api/v2/monotonic-counter", body).data == {"value": value}
            counting = own_port(client)
        assert server.stop() == 0
        assert server.process is not None
        calls = read_trace(output, server.process.pid)
    joined = last_answers(calls, joining, ACTIVATIONS)
    assert all(answer.result > PARAMETERS for _, answer in joined)
    hold_durable(server.data, calls, joined + last_answers(calls, counting, COUNTS))


def test_the_journal_is_synced_between_each_request_and_its_answer_under_load(
    tmp_path: Path,
) -> None:
    (tmp_path / "state").mkdir()
    server, output = traced(tmp_path)
    with server, server.client() as anyone:
        assert anyone.set_manifest(manifest(WRITERS)).status == 200
        clients = [server.client(user("writer")) for _ in range(WRITERS)]
        statuses: list[int] = []

        def write(client: Client, name: str) -> None:
            statuses.extend(
                client.upload({name: number.to_bytes(16)}).status for number in range(UPLOADS)
            )

        threads = [
            threading.Thread(target=write, args=(client, f"key{number}"))
            for number, client in enumerate(clients)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        ports = [own_port(client) for client in clients]
        assert server.stop() == 0
        assert server.process is not None
        calls = read_trace(output, server.process.pid)
        for client in clients:  # only now: a goodbye would look like one more request
            client.close()
    assert statuses == [200] * (WRITERS * UPLOADS)
    wal = str(server.data / "journal.db-wal")
    syncs = [call for call in calls if call.syncs and call.target == wal]
    writes = [call for call in calls if call.name == "pwrite64" and call.target == wal]
    for port in ports:
        for asked, answer in last_answers(calls, port, UPLOADS):
            assert any(
                asked.ended < write.began and write.ended < sync.began and sync.ended < answer.began
                for write in writes
                for sync in syncs
            )


def test_a_clean_stop_seals_where_the_journal_ends(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    server, output = traced(tmp_path)
    with server, server.client() as anyone, server.client(user("writer")) as writer:
        assert anyone.set_manifest(manifest()).status == 200
        assert writer.upload({"key0": bytes(16)}).status == 200
        assert server.stop() == 0
        assert server.process is not None
        calls = read_trace(output, server.process.pid)
    wal, key = str(server.data / "journal.db-wal"), str(server.data / "sealed_key")
    records = [call.began for call in calls if call.name == "pwrite64" and call.target == wal]
    sealed = [call.began for call in calls if call.name == "rename" and call.names[-1] == key]
    assert sealed[-1] > records[-1]

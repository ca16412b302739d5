"""The limits of the workload API, on real connections: times and sizes that a test can meet."""

import gc
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import grpc
import pytest
from h2.errors import ErrorCodes
from h2.events import DataReceived, StreamEnded
from h2.exceptions import StreamClosedError
from h2.settings import SettingCodes
from hyperframe.frame import RstStreamFrame
from support.captured_log import capture_logs
from support.peers.listener import workloads
from support.peers.workloads import WORKLOAD, Http2Wire, framed, grpcio, request

from keyhouse.server.grpc.call import Call
from keyhouse.server.grpc.connection import GrpcConnection
from keyhouse.server.grpc.http2 import Http2
from keyhouse.server.net.grpc_status import GrpcStatus
from keyhouse.server.net.limits import WorkloadLimits

SWEEP = 0.02


def asking(kind: str) -> bytes:
    """Return the framed request of a marble type."""
    return framed(request(MarbleType=kind).SerializeToString())


def test_identity_is_the_leaf_of_the_connection(tmp_path: Path) -> None:
    with workloads(tmp_path) as server, Http2Wire(server.port) as wire:
        wire.begin()
        assert [wire.call(asking("app")).status for _ in range(2)] == [0, 0]
        assert server.joining.identities == [WORKLOAD.certificate] * 2


def test_connection_that_is_used_can_be_used_for_long(tmp_path: Path) -> None:
    """Its frames cost more than its allowance; the answers fill that up."""
    limits = WorkloadLimits(idle_frames=20)
    with workloads(tmp_path, limits) as server, Http2Wire(server.port) as wire:
        wire.begin()
        assert {wire.call(asking("app")).status for _ in range(6)} == {GrpcStatus.OK}
        assert {wire.call(framed(b"\xff")).status for _ in range(12)} == {
            GrpcStatus.INVALID_ARGUMENT
        }


def test_unexpected_failure_shows_an_id_and_nothing_of_itself(
    tmp_path: Path,
) -> None:
    with capture_logs() as entries, workloads(tmp_path) as server, Http2Wire(server.port) as wire:
        answer = wire.begin().call(asking("fail"))

    message = answer.headers["grpc-message"]
    number = message.removeprefix("internal error ")
    assert answer.status == GrpcStatus.INTERNAL
    assert len(number) == 16
    assert number in str(entries)
    assert "a secret" not in str(entries)


def test_request_that_never_ends_is_refused_in_time(tmp_path: Path) -> None:
    limits = WorkloadLimits(request_timeout=0.1, sweep_interval=SWEEP)
    with workloads(tmp_path, limits) as server, Http2Wire(server.port) as wire:
        answer = wire.begin().answer(wire.headers())

        assert answer.status == GrpcStatus.DEADLINE_EXCEEDED
        assert wire.call(asking("app")).status == GrpcStatus.OK


def test_connection_without_a_call_is_told_and_closed(tmp_path: Path) -> None:
    limits = WorkloadLimits(idle_timeout=0.1, sweep_interval=SWEEP)
    with workloads(tmp_path, limits) as server, Http2Wire(server.port) as wire:
        assert wire.begin().goodbye() == ErrorCodes.NO_ERROR


def test_connection_without_another_call_is_told_and_closed(tmp_path: Path) -> None:
    with workloads(tmp_path) as server, Http2Wire(server.port) as wire:
        assert wire.begin().call(asking("app")).status == GrpcStatus.OK
        server.pass_time(WorkloadLimits().idle_timeout)
        assert wire.goodbye() == ErrorCodes.NO_ERROR


def test_silent_connection_is_closed(tmp_path: Path) -> None:
    limits = WorkloadLimits(idle_timeout=0.1, sweep_interval=SWEEP)
    with workloads(tmp_path, limits) as server, Http2Wire(server.port) as wire:
        wire.goodbye()
        server.do_until(lambda: len(server.listener.connections) == 0)
        assert server.listener.connections.failed_handshakes == 0


def test_half_a_handshake_is_closed(tmp_path: Path) -> None:
    limits = WorkloadLimits(handshake_timeout=0.1, sweep_interval=SWEEP)
    with workloads(tmp_path, limits) as server:
        half = socket.create_connection(("127.0.0.1", server.port), timeout=20)
        with half, suppress(ConnectionError):  # it is cut off before this where the machine stalls
            half.sendall(b"\x16\x03\x01")
            assert half.recv(100) == b""
        server.do_until(lambda: len(server.listener.connections) == 0)
        assert server.listener.connections.failed_handshakes == 1


def test_answer_that_is_not_taken_is_given_up_and_its_slot_is_free(tmp_path: Path) -> None:
    limits = WorkloadLimits(answer_timeout=0.1, calls=1, sweep_interval=SWEEP)
    with workloads(tmp_path, limits) as server:
        with Http2Wire(server.port) as deaf:
            deaf.begin().h2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 0})
            answer = deaf.call(asking("app"))
            assert answer.reset == ErrorCodes.CANCEL
        with Http2Wire(server.port) as wire:
            assert wire.begin().call(asking("app")).status == GrpcStatus.OK


def test_connection_that_has_ended_leaves_no_memory_to_the_collector(tmp_path: Path) -> None:
    def held() -> int:
        return sum(type(each) is Http2 for each in gc.get_objects())

    with workloads(tmp_path) as server:
        gc.collect()
        gc.disable()
        try:
            for _ in range(3):
                with Http2Wire(server.port) as wire:
                    assert wire.begin().call(asking("app")).status == GrpcStatus.OK
                    assert held() > 0
            with Http2Wire(server.port) as wire:
                wire.begin().headers()
                wire.flush()
                server.do_until(lambda: held() > 0)
            server.do_until(lambda: held() == 0)
        finally:
            gc.enable()


def test_client_that_reads_nothing_is_cut_off(tmp_path: Path) -> None:
    """Its windows are open and its socket is full: the answers go nowhere."""

    def is_full() -> bool:
        (connection,) = server.listener.connections.all()
        assert isinstance(connection, GrpcConnection)
        return connection._calls is not None and connection._calls.is_blocked

    with workloads(tmp_path) as server, Http2Wire(server.port) as deaf:
        deaf.begin().h2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 2**31 - 1})
        deaf.h2.increment_flow_control_window(2**31 - 1 - 65_535)
        for _ in range(40):
            deaf.whole(asking("big"))
        deaf.flush()
        server.do_until(is_full)
        server.pass_time(WorkloadLimits().answer_timeout + 2)
        server.do_until(lambda: len(server.listener.connections) == 0)
        assert server.listener.service.calls.held == 0


def test_calls_in_flight_are_bounded_and_a_client_who_leaves_frees_its_slot(
    tmp_path: Path,
) -> None:
    with workloads(tmp_path, WorkloadLimits(calls=1)) as server, Http2Wire(server.port) as wire:
        with Http2Wire(server.port) as waiting:
            stream = waiting.begin().whole(asking("wait"))
            waiting.flush()
            server.do_until(lambda: server.listener.service.calls.held == 1)
            assert wire.begin().call(asking("app")).status == GrpcStatus.UNAVAILABLE

            waiting.h2.reset_stream(stream)
            waiting.flush()
            assert server.joining.cancelled.wait(20)
            server.do_until(lambda: server.listener.service.calls.held == 0)  # a moment later
            assert wire.call(asking("app")).status == GrpcStatus.OK
            waiting.whole(asking("wait"))
            waiting.flush()
            server.do_until(lambda: server.listener.service.calls.held == 1)
        server.do_until(lambda: server.listener.service.calls.held == 0)
        assert (
            server.listener.service.counts.handled[
                GrpcStatus.CANCELED, "Activate", "rpc.Marble", "unary"
            ]
            == 2
        )


def test_client_with_the_most_calls_loses_one_to_a_client_with_fewer(tmp_path: Path) -> None:
    with (
        workloads(tmp_path, WorkloadLimits(calls=3)) as server,
        Http2Wire(server.port) as greedy,
        Http2Wire(server.port) as wire,
    ):
        greedy.begin()
        streams = [greedy.whole(asking("wait")) for _ in range(3)]
        greedy.flush()
        server.do_until(lambda: server.listener.service.calls.held == 3)
        assert wire.begin().call(asking("app")).status == GrpcStatus.OK
        assert greedy.answer(streams[-1]).status == GrpcStatus.UNAVAILABLE
        server.do(server.joining.gate.set)
        assert greedy.answer(streams[0]).status == GrpcStatus.OK


def test_client_with_the_most_bytes_loses_them_to_a_client_with_fewer(tmp_path: Path) -> None:
    limits = WorkloadLimits(message_memory=18_000)
    large = framed(bytes(15_000))
    with workloads(tmp_path, limits) as server:
        with Http2Wire(server.port) as greedy, Http2Wire(server.port) as wire:
            stream = greedy.begin().headers()
            greedy.h2.send_data(stream, large[:-1])
            greedy.flush()
            server.do_until(lambda: server.listener.service.memory.held > 10_000)
            assert wire.begin().call(large).status == GrpcStatus.UNAVAILABLE  # as much as the other
            assert wire.call(framed(bytes(5_000))).status == GrpcStatus.INVALID_ARGUMENT
            assert greedy.answer(stream).status == GrpcStatus.UNAVAILABLE
        server.do_until(lambda: server.listener.service.memory.held == 0)
        with Http2Wire(server.port) as wire:
            assert wire.begin().call(large).status == GrpcStatus.INVALID_ARGUMENT


def test_bytes_of_one_connection_are_bounded(tmp_path: Path) -> None:
    limits = WorkloadLimits(connection_bytes=10_000)
    with workloads(tmp_path, limits) as server, Http2Wire(server.port) as wire:
        answer = wire.begin().call(framed(bytes(15_000)))
        assert answer.status == GrpcStatus.RESOURCE_EXHAUSTED
        assert "in flight" in answer.headers["grpc-message"]
        assert wire.call(asking("app")).status == GrpcStatus.OK


def test_streams_of_all_connections_are_bounded(tmp_path: Path) -> None:
    limits = WorkloadLimits(all_streams=1)
    with workloads(tmp_path, limits) as server, Http2Wire(server.port) as first:
        first.begin().headers()
        server.do_until(lambda: server.listener.service.streams.held == 1)
        with Http2Wire(server.port) as second:
            assert second.begin().answer(second.headers()).reset == ErrorCodes.REFUSED_STREAM


def test_answer_larger_than_the_windows_comes_whole(tmp_path: Path) -> None:
    with workloads(tmp_path) as server, Http2Wire(server.port) as wire:
        answer = wire.begin().call(asking("big"))
        assert answer.status == GrpcStatus.OK
        assert len(answer.data) > 1_000_000
        assert server.listener.service.calls.held == 0


def test_large_answer_is_sent_in_turns_though_its_client_would_take_it_whole(
    tmp_path: Path,
) -> None:
    unsent = list[int]()

    def look() -> None:
        found = list[Call]()
        for connection in server.listener.connections.all():
            assert isinstance(connection, GrpcConnection)
            if connection._calls is not None:
                found += connection._calls._calls.values()
        unsent.append(sum(len(call.answer or b"") for call in found))
        if found:
            server.loop.call_soon(look)

    with workloads(tmp_path) as server, Http2Wire(server.port) as wire:
        wire.begin().h2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 2**31 - 1})
        wire.h2.increment_flow_control_window(2**31 - 1 - 65_535)
        stream = wire.whole(asking("wait big"))
        wire.flush()
        server.do_until(lambda: server.listener.service.calls.held == 1)
        server.do(lambda: server.loop.call_soon(look))
        server.do(server.joining.gate.set)
        assert len(wire.answer(stream).data) > 1_000_000
        server.do_until(lambda: server.listener.service.calls.held == 0)
    first = next(at for at, count in enumerate(unsent) if count)
    sent = [before - after for before, after in pairwise(unsent[first:])]
    assert sum(sent) > 900_000
    assert max(sent) <= WorkloadLimits().turn_bytes + 16 * 1024


def test_client_with_the_longest_answers_not_taken_loses_one_to_another(tmp_path: Path) -> None:
    limits = WorkloadLimits(answer_memory=2_500_000)
    with (
        workloads(tmp_path, limits) as server,
        Http2Wire(server.port) as deaf,
        Http2Wire(server.port) as wire,
    ):
        deaf.begin().h2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 0})
        for _ in range(2):
            deaf.whole(asking("big"))
        deaf.flush()
        held = server.listener.service.answers
        server.do_until(lambda: held.held > 2_000_000)
        assert wire.begin().call(asking("big")).status == GrpcStatus.OK
        server.do_until(lambda: held.held < 1_100_000)
        assert server.listener.service.calls.held == 1


def test_client_may_confirm_each_frame_of_a_large_answer(tmp_path: Path) -> None:
    """For its stream and for the connection: twice as many frames as it may send without a use."""
    limits = WorkloadLimits(idle_frames=60)
    with workloads(tmp_path, limits) as server, Http2Wire(server.port) as wire:
        stream = wire.begin().headers()
        wire.h2.send_data(stream, asking("big"), end_stream=True)
        wire.flush()
        received, confirmed, ended = 0, 0, False
        while not ended:
            data = wire.tls.recv(65536)
            assert data, "closed"
            for event in wire.h2.receive_data(data):
                ended = ended or isinstance(event, StreamEnded)
                if isinstance(event, DataReceived):
                    received += event.flow_controlled_length
                    for each in (None, stream):
                        with suppress(StreamClosedError):  # the last frames came together
                            wire.h2.increment_flow_control_window(
                                event.flow_controlled_length, each
                            )
                            confirmed += 1
            wire.flush()
        assert received > 1_000_000
        assert confirmed > limits.idle_frames


def test_no_call_begins_on_a_connection_that_is_ending(tmp_path: Path) -> None:
    with workloads(tmp_path) as server, Http2Wire(server.port) as wire:
        stream = wire.begin().headers()
        wire.h2.send_data(stream, asking("wait"), end_stream=True)
        wire.flush()
        server.do_until(lambda: server.listener.service.calls.held == 1)
        server.do(lambda: server.listener.close_before(server.listener.begin_generation()))
        late = wire.headers()  # before it has read that the connection ends
        wire.h2.send_data(late, asking("app"), end_stream=True)
        wire.flush()
        refusal = RstStreamFrame(late, error_code=ErrorCodes.REFUSED_STREAM).serialize()
        said = b""
        while refusal not in said:
            said += wire.tls.recv(65536) or pytest.fail("closed without a word")
        server.do(server.joining.gate.set)
        server.do_until(lambda: len(server.listener.connections) == 0)
        assert len(server.joining.identities) == 1


def test_call_that_has_begun_is_answered_before_the_end(tmp_path: Path) -> None:
    with (
        workloads(tmp_path) as server,
        grpcio(server.port) as client,
        ThreadPoolExecutor(1) as pool,
    ):
        ended = pool.submit(client.call, request(MarbleType="wait"))
        server.do_until(lambda: server.listener.service.calls.held == 1)
        server.do(lambda: server.listener.close_before(server.listener.begin_generation()))
        server.do(server.joining.gate.set)
        assert ended.result(20).code is grpc.StatusCode.OK
        server.do_until(lambda: len(server.listener.connections) == 0)

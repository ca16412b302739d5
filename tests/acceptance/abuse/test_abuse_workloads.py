"""The workload API under attack: HTTP/2 used against its server. Others are served all the while.

CVE-2023-44487 is the rapid reset, CVE-2024-27316 the headers that never end.
"""

import socket
import struct
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.settings import SettingCodes
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    Frame,
    HeadersFrame,
    PingFrame,
    PriorityFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)
from hypothesis import HealthCheck, given, settings, strategies as st
from support.peers.abuse import besieged, in_parallel
from support.peers.workloads import HEADERS, PATIENCE, Http2Wire, framed, request
from support.process.server import Server
from support.samples.deployment import manifest

from keyhouse.server.net.grpc_status import GrpcStatus

pytestmark = pytest.mark.acceptance

CALM = ErrorCodes.ENHANCE_YOUR_CALM
MOST = 64 * 1024 * 1024  # bytes of frames that a flood may send if nobody stops it
MIB = 1024 * 1024


def block(wire: Http2Wire) -> bytes:
    """Return the headers of a call, encoded."""
    return wire.h2.encoder.encode(list(HEADERS))


def several(frame: Frame, count: int = 500) -> bytes:
    """Return the bytes of ``count`` such frames."""
    return bytes(frame.serialize()) * count


def resets(wire: Http2Wire) -> bytes:
    """Return calls that are reset at once."""
    found = b""
    for stream in range(1, 2001, 2):
        headers = HeadersFrame(stream, block(wire), flags=["END_HEADERS"])
        found += headers.serialize() + RstStreamFrame(stream, error_code=8).serialize()
    return found


def running_resets(wire: Http2Wire) -> bytes:
    """Return whole calls that are reset while they run."""
    found, message = b"", framed(request().SerializeToString())
    for stream in range(1, 1001, 2):
        headers = HeadersFrame(stream, block(wire), flags=["END_HEADERS"])
        data = DataFrame(stream, message, flags=["END_STREAM"])
        reset = RstStreamFrame(stream, error_code=8)
        found += headers.serialize() + data.serialize() + reset.serialize()
    return found


def continuations(wire: Http2Wire) -> bytes:
    return HeadersFrame(1, block(wire)).serialize() + several(ContinuationFrame(1, b"\0\1a\1b"))


def long_continuations(wire: Http2Wire) -> bytes:
    return HeadersFrame(1, block(wire)).serialize() + several(
        ContinuationFrame(1, bytes(16_000)), 8
    )


def empty_data(wire: Http2Wire) -> bytes:
    headers = HeadersFrame(1, block(wire), flags=["END_HEADERS"]).serialize()
    return bytes(headers) + several(DataFrame(1, b""))


def tiny_data(wire: Http2Wire) -> bytes:
    """One message, a byte at a time."""
    headers = HeadersFrame(1, block(wire), flags=["END_HEADERS"]).serialize()
    return bytes(headers) + several(DataFrame(1, b"\0"), 600)


def many_settings(_: Http2Wire) -> bytes:
    """Settings that nobody knows, each of which a server might keep."""
    head = (6000).to_bytes(3, "big") + b"\x04\0\0\0\0\0"
    return head + b"".join(struct.pack(">HI", 1000 + number, 1) for number in range(1000))


FLOODS: dict[str, Callable[[Http2Wire], bytes]] = {
    "rapid reset": resets,
    "rapid reset of calls that run": running_resets,
    "headers that never end": continuations,
    "long headers that never end": long_continuations,
    "pings": lambda _: several(PingFrame(0, b"12345678")),
    "settings": lambda _: several(SettingsFrame(0, {4: 65535})),
    "one frame of many settings": many_settings,
    "priorities": lambda _: several(PriorityFrame(3, depends_on=0, stream_weight=1)),
    "windows": lambda _: several(WindowUpdateFrame(0, window_increment=1)),
    "unknown frames": lambda _: b"\0\0\0\xfa\0\0\0\0\0" * 500,
    "empty data": empty_data,
    "tiny data": tiny_data,
}


def initiated() -> H2Connection:
    """Return a client whose bytes many connections send: the siege itself has to be cheap."""
    client = H2Connection(H2Configuration(header_encoding="utf-8"))
    client.initiate_connection()
    return client


def is_served(server: Server) -> bool:
    """Tell whether an honest workload is activated now."""
    with Http2Wire(server.mesh_port) as wire:
        answer = wire.begin().call(framed(request().SerializeToString()))
    return answer.status == GrpcStatus.OK


@pytest.mark.parametrize("name", FLOODS)
def test_flood_ends_with_a_request_for_calm(running: Server, name: str) -> None:
    with Http2Wire(running.mesh_port) as wire:
        wire.begin().send_until_cut(FLOODS[name](wire), 1)
        assert wire.goodbye() == CALM
    assert is_served(running)


def test_floods_from_many_leave_room_for_others(tmp_path: Path) -> None:
    """Each of 100 connections sends its flood for as long as it is let."""
    kinds = list(FLOODS.values())

    with besieged(tmp_path, manifest(), growth=80) as server:

        def attack(number: int) -> int:
            with Http2Wire(server.mesh_port) as wire:
                flood = kinds[number % len(kinds)](wire.begin())
                return wire.send_until_cut(flood, MOST)

        for _ in range(2):
            assert max(in_parallel(50, 4, attack)) < MOST
            assert is_served(server)


def test_header_list_too_long_is_not_read(running: Server) -> None:
    long = ("x-long", "a" * 20_000)
    with Http2Wire(running.mesh_port) as wire:
        wire.begin().headers(long)
        assert wire.goodbye() == CALM


def test_header_list_that_grows_when_it_is_decoded_is_not_read(running: Server) -> None:
    """A table entry of 3 KiB, named a thousand times by one byte each."""
    with Http2Wire(running.mesh_port) as wire:
        wire.begin()
        headers = [*HEADERS, *[("x-bomb", "a" * 3000)] * 1000]
        data = wire.h2.encoder.encode(headers)
        assert len(data) < 8000
        wire.send(HeadersFrame(1, data, flags=["END_HEADERS"]).serialize())
        assert wire.goodbye() == CALM


def test_more_streams_than_allowed_end_the_connection(running: Server) -> None:
    with Http2Wire(running.mesh_port) as wire:
        wire.begin()
        for stream in range(1, 205, 2):
            wire.send(HeadersFrame(stream, block(wire), flags=["END_HEADERS"]).serialize())
        assert wire.goodbye() is not None
    assert is_served(running)


def test_requests_that_never_end_leave_room_for_others(tmp_path: Path) -> None:
    """Each of 300 connections sends as much of a request as it may at once, and no more."""
    part = b"\0" + (4 * MIB).to_bytes(4, "big") + bytes(60_000)

    def begin(wire: Http2Wire) -> None:
        stream = wire.begin().headers()
        for at in range(0, len(part), 16_000):
            wire.h2.send_data(stream, part[at : at + 16_000])
        wire.flush()

    with besieged(tmp_path, manifest(), growth=120) as server, ExitStack() as stack:
        in_parallel(300, 4, lambda _: begin(stack.enter_context(Http2Wire(server.mesh_port))))
        assert is_served(server)


def test_streams_that_never_end_lock_no_workload_out(tmp_path: Path) -> None:
    """172 connections with 96 open streams each: more than all connections may have together."""
    client = initiated()
    for _ in range(96):
        client.send_headers(client.get_next_available_stream_id(), HEADERS)
    opened = client.data_to_send()

    with besieged(tmp_path, manifest(), growth=120, told=100) as server, ExitStack() as stack:
        for _ in range(172):
            stack.enter_context(Http2Wire(server.mesh_port)).send(opened)
        assert [is_served(server) for _ in range(100)] == [True] * 100


def test_clients_that_take_no_answer_lock_no_workload_out(running: Server) -> None:
    """Their windows stay shut: answers wait, together more than there may be calls."""
    message, client = framed(request().SerializeToString()), initiated()
    client.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 0})
    for _ in range(95):
        stream = client.get_next_available_stream_id()
        client.send_headers(stream, HEADERS)
        client.send_data(stream, message, end_stream=True)
    calls = client.data_to_send()

    with ExitStack() as stack:
        deaf = [stack.enter_context(Http2Wire(running.mesh_port)) for _ in range(44)]
        in_parallel(len(deaf), 4, lambda number: deaf[number].send(calls))
        assert [is_served(running) for _ in range(20)] == [True] * 20


def test_idle_and_half_open_connections_leave_room_for_others(tmp_path: Path) -> None:
    with besieged(tmp_path, manifest(), growth=120) as server, ExitStack() as stack:
        address = ("127.0.0.1", server.mesh_port)
        for _ in range(300):
            half = stack.enter_context(socket.create_connection(address, timeout=PATIENCE))
            half.sendall(b"\x16\x03\x01\x02\x00")
        in_parallel(300, 4, lambda _: stack.enter_context(Http2Wire(server.mesh_port)).begin())
        assert is_served(server)


@pytest.mark.parametrize(
    "data",
    [b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", bytes(64), b"\xff" * 64],
    ids=["http", "zeros", "ones"],
)
def test_bytes_without_tls_are_closed(running: Server, data: bytes) -> None:
    with socket.create_connection(("127.0.0.1", running.mesh_port), timeout=PATIENCE) as plain:
        plain.sendall(data)
        while plain.recv(4096):
            pass


FRAMES = st.builds(
    lambda kind, flags, stream, body: (
        len(body).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + body
    ),
    st.integers(0, 12),
    st.integers(0, 255),
    st.sampled_from([0, 1, 2, 3, 5, 2**31 - 1, 2**32 - 1]),
    st.binary(max_size=60),
)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(FRAMES, max_size=12), st.binary(max_size=40))
def test_garbage_ends_its_own_connection_at_most(
    running: Server, frames: list[bytes], rest: bytes
) -> None:
    with Http2Wire(running.mesh_port) as wire:
        wire.begin().send(b"".join(frames) + rest)
    # What is heard after it was acted on before this is answered: one loop serves both.
    with Http2Wire(running.mesh_port) as honest:
        assert honest.begin().call(framed(b"")).status == GrpcStatus.PERMISSION_DENIED
    errors = [line for line in running.logged().splitlines() if '"level": "error"' in line]
    assert errors == []


def test_garbage_in_place_of_the_preface_is_closed(running: Server) -> None:
    with Http2Wire(running.mesh_port) as wire:
        wire.h2.initiate_connection()
        wire.h2.clear_outbound_data_buffer()
        wire.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert wire.goodbye() is None  # closed, with no frame for what is no HTTP/2

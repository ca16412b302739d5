"""Frames that cost much and bring little: turns between them, and what is refused unread."""

import asyncio
from itertools import pairwise

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import ConnectionTerminated, RequestReceived
from h2.exceptions import H2Error
from hypothesis import given, strategies as st
from support.peers.workloads import HEADERS

from keyhouse.server.grpc.connection import GrpcConnection
from keyhouse.server.grpc.http2 import A_TURN, HEADERS_COUNT, FrameMeter, Frames, Http2
from keyhouse.server.grpc.service import GrpcService
from keyhouse.server.net.limits import WorkloadLimits

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS_FRAME, PING = 0, 1, 6
END_STREAM, END_HEADERS = 1, 4
LIMITS = WorkloadLimits()


def frame(kind: int, flags: int = 0, stream: int = 0, body: bytes = b"") -> bytes:
    return len(body).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + body


class Carrier:
    """The transport of a connection: keeps what is written, and knows whether it may read."""

    identity = b"a certificate"
    server_leaf = b""

    def __init__(self) -> None:
        self.written = bytearray()
        self.reads = True
        self.closed = False

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True

    def write(self, data: bytes) -> None:
        self.written += data

    def close(self, linger: int = 0) -> None:
        del linger
        self.closed = True

    def abort(self) -> None:
        self.closed = True


class Served:
    """A connection without sockets, and a client that knows what it was sent."""

    def __init__(self) -> None:
        self.carrier = Carrier()
        self.connection = GrpcConnection(GrpcService({}, LIMITS), 0)
        self.connection.connecting(self.carrier)
        self.connection.connection_made()
        self.client = H2Connection(H2Configuration())
        self.client.initiate_connection()
        self.connection.data_received(self.client.data_to_send())

    def pongs(self) -> int:
        """Return how many pings were answered so far."""
        return self.carrier.written.count(b"\x00\x00\x08\x06\x01\0\0\0\0")

    def said(self) -> int | None:
        """Return the code of the GOAWAY, None if there is none."""
        events = self.client.receive_data(bytes(self.carrier.written))
        codes = [each.error_code for each in events if isinstance(each, ConnectionTerminated)]
        return int(codes[0] or 0) if codes else None


@pytest.fixture(name="served")
async def serve() -> Served:
    return Served()


async def test_frames_that_come_together_are_acted_on_turn_by_turn(served: Served) -> None:
    await asyncio.sleep(0)
    served.connection.data_received(frame(PING, body=bytes(8)) * (3 * A_TURN))
    seen = [served.pongs()]
    while not served.carrier.reads:
        await asyncio.sleep(0)
        seen.append(served.pongs())
    assert seen[-1] == 3 * A_TURN
    assert max(after - before for before, after in pairwise([0, *seen])) == A_TURN


async def test_blocks_of_headers_count_as_several_frames(served: Served) -> None:
    calls = 3 * A_TURN // HEADERS_COUNT
    for stream in range(1, 2 * calls, 2):
        served.client.send_headers(stream, HEADERS, end_stream=False)
    counts, seen = served.connection._service.counts.started, list[int]()
    served.connection.data_received(served.client.data_to_send())
    while sum(counts.values()) < calls:
        seen.append(sum(counts.values()))
        await asyncio.sleep(0)
    steps = {after - before for before, after in pairwise([0, *seen, calls])}
    assert max(steps) <= A_TURN // HEADERS_COUNT
    assert not served.carrier.closed


async def test_long_frame_is_refused_by_its_head(served: Served) -> None:
    """h2 alone would keep up to 16 MB of one frame, which no limit of memory counts."""
    served.connection.data_received((16 * 1024 + 1).to_bytes(3, "big") + bytes(6))
    assert served.said() == ErrorCodes.ENHANCE_YOUR_CALM
    assert served.carrier.closed


async def test_data_of_a_stream_that_has_ended_has_a_price(served: Served) -> None:
    served.client.send_headers(1, HEADERS, end_stream=False)
    served.connection.data_received(served.client.data_to_send())  # refused: there is no method
    for _ in range(LIMITS.idle_frames + 1):
        while not served.carrier.reads:  # noqa: ASYNC110 - turn after turn
            await asyncio.sleep(0)
        served.connection.data_received(frame(DATA, END_STREAM, 1))
    assert served.carrier.closed


async def test_connection_that_ends_in_the_middle_of_a_turn_does_nothing_more(
    served: Served,
) -> None:
    served.connection.data_received(frame(PING, body=bytes(8)) * (2 * A_TURN))
    before = served.pongs()
    served.connection.connection_lost(None)
    await asyncio.sleep(0)
    assert served.pongs() == before


@given(
    st.lists(st.tuples(st.integers(0, 12), st.binary(max_size=60)), max_size=20),
    st.sets(st.integers(0, 1500)),
)
def test_frames_are_the_same_however_their_bytes_are_cut(
    sent: list[tuple[int, bytes]], cuts: set[int]
) -> None:
    whole = [PREFACE, *(frame(kind, body=body) for kind, body in sent)]
    data = b"".join(whole)
    ends = sorted({0, len(data), *(at for at in cuts if at < len(data))})
    frames, found = Frames(), list[bytes]()
    for begin, end in pairwise(ends):
        frames.add(data[begin:end])
        found += iter(frames.next, b"")
    assert found == whole


# --- blocks of headers ---


@pytest.fixture(name="http2")
def begin_http2() -> Http2:
    http2 = Http2(LIMITS.metadata, LIMITS.streams)
    http2.initiate_connection()
    http2.receive_data(PREFACE + frame(4))
    return http2


def block(*before: bytes) -> bytes:
    """Return a call's block of headers that begins with ``before``."""
    client = H2Connection()
    fields = client.encoder.encode([(name.encode(), text.encode()) for name, text in HEADERS])
    return frame(HEADERS_FRAME, END_HEADERS, 1, b"".join(before) + fields)


def literal(name: bytes, size: int) -> bytes:
    """Return a field that is not indexed, with a value of ``size`` (255 to 16,510) bytes."""
    rest = size - 0x7F
    return (
        b"\0"
        + bytes([len(name)])
        + name
        + bytes([0x7F, rest & 0x7F | 0x80, rest >> 7])
        + b"v" * size
    )


@pytest.mark.parametrize("size", [b"\x20", b"\x3e", b"\x3f\xe1\x1f"], ids=["0", "30", "4096"])
def test_block_may_begin_with_two_sizes_of_the_table_and_no_more(http2: Http2, size: bytes) -> None:
    """RFC 7541, 4.2: the smallest, and the last one."""
    found = http2.receive_data(block(b"\x20", size))
    assert isinstance(found[0], RequestReceived)
    with pytest.raises(H2Error):
        http2.receive_data(block(b"\x20", b"\x20", size))


def test_block_of_headers_is_bounded_before_it_is_decoded() -> None:
    """A byte of Huffman's code costs 0.12 µs: with 1,024 bytes a call takes 0.3 ms at most."""
    assert LIMITS.header_block <= 1024
    meter = FrameMeter(LIMITS.header_block, LIMITS.idle_frames)
    assert meter.feed(PREFACE + frame(HEADERS_FRAME, END_HEADERS, 1, bytes(LIMITS.header_block)))
    assert not meter.feed(frame(HEADERS_FRAME, END_HEADERS, 3, bytes(LIMITS.header_block + 1)))


@pytest.mark.parametrize(("more", "closed"), [(0, False), (1, True)])
async def test_connection_ends_at_a_block_that_is_longer_than_the_limit(
    more: int, *, closed: bool
) -> None:
    served = Served()
    fields = block()[9:]
    padding = LIMITS.header_block - len(fields) - 6 + more
    long = fields + literal(b"x", padding)
    assert len(long) == LIMITS.header_block + more
    served.connection.data_received(frame(HEADERS_FRAME, END_HEADERS, 1, long))
    assert served.carrier.closed is closed


def test_fields_of_a_block_are_bounded_as_they_are_decoded(http2: Http2) -> None:
    """Each counts 32 bytes beside its own, RFC 9113, 6.5.2."""
    fields = b"\0\x01a\0" * (LIMITS.metadata // 33 + 1)
    with pytest.raises(H2Error, match="Oversized"):
        http2.receive_data(frame(HEADERS_FRAME, END_HEADERS, 1, fields))


def test_headers_that_clients_of_grpc_send_are_far_below_the_limit() -> None:
    """With those that tracing adds, as HTTP/2 counts them."""
    more = [
        ("user-agent", "grpc-go/1.70.0"),
        ("grpc-timeout", "29999999u"),
        ("grpc-accept-encoding", "identity, deflate, gzip"),
        ("traceparent", "00-" + "a" * 32 + "-" + "b" * 16 + "-01"),
        ("tracestate", "c" * 512),
    ]
    size = sum(32 + len(name) + len(text) for name, text in [*HEADERS, *more])
    assert size < LIMITS.metadata * 3 // 4
    literals = sum(6 + len(name) + len(text) for name, text in [*HEADERS, *more])
    assert literals < LIMITS.header_block

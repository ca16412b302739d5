"""What counts as a chunked body, and that nothing else does."""

import h11
import pytest
from hypothesis import given, settings, strategies as st

from keyhouse.server.http.chunks import ChunkedBody
from keyhouse.server.http.head import MalformedError

HEAD = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"


@settings(max_examples=300, deadline=None)
@given(
    body=st.binary(max_size=300),
    sizes=st.lists(st.integers(1, 40), min_size=1, max_size=10),
    cut=st.integers(1, 50),
    extension=st.sampled_from([b"", b";a", b' ; a="b;\\"c"', b";a=b;c=d"]),
)
def test_chunks_are_joined_however_they_arrive(
    body: bytes, sizes: list[int], cut: int, extension: bytes
) -> None:
    wire, at, turn = b"", 0, 0
    while at < len(body):
        piece = body[at : at + sizes[turn % len(sizes)]]
        wire += b"%X%b\r\n%b\r\n" % (len(piece), extension, piece)
        at, turn = at + len(piece), turn + 1
    wire += b"0\r\n\r\nGET / HTTP/1.1\r\n\r\n"
    chunks = ChunkedBody()
    for begin in range(0, len(wire), cut):
        chunks.feed(wire[begin : begin + cut], 1000)
    assert chunks.complete
    assert (chunks.content(), chunks.rest()) == (body, b"GET / HTTP/1.1\r\n\r\n")


BROKEN_CHUNKS = {
    "no size": b"\r\n",
    "not hexadecimal": b"g\r\n",
    "signed": b"+5\r\nhello\r\n0\r\n\r\n",
    "prefixed": b"0x5\r\nhello\r\n0\r\n\r\n",
    "blank before size": b" 5\r\nhello\r\n0\r\n\r\n",
    "blank after size": b"5 \r\nhello\r\n0\r\n\r\n",
    "bare LF": b"5\nhello\n0\n\n",
    "data too long": b"4\r\nhello\r\n0\r\n\r\n",
    "data without line end": b"5\r\nhello0\r\n\r\n",
    "two bytes for a line end": b"5\r\nhelloxx0\r\n\r\n",
    "two bytes for the last line": b"0\r\nxx",
    "endless size": b"0" * 20 + b"5\r\nhello\r\n",
    "endless line": b"5;" + b"a" * 300,
    "open quote": b'5;a="b\r\nhello\r\n0\r\n\r\n',
    "line break in extension": b'5;a="\n"\r\nhello\r\n',
    "trailer": b"0\r\nX: y\r\n\r\n",
    "more framing than data": b"1;"
    + b"a" * 200
    + b"\r\nx\r\n"
    + (b"1;" + b"a" * 200 + b"\r\nx\r\n") * 99,
}


@pytest.mark.parametrize("wire", BROKEN_CHUNKS.values(), ids=BROKEN_CHUNKS.keys())
def test_broken_chunks_are_refused(wire: bytes) -> None:
    chunks = ChunkedBody()
    with pytest.raises(MalformedError) as caught:
        chunks.feed(wire, 1000)
    assert (caught.value.status, caught.value.part) == (400, "body")


def fed(*pieces: bytes) -> ChunkedBody:
    chunks = ChunkedBody()
    for piece in pieces:
        chunks.feed(piece, 1_000_000)
    return chunks


def test_size_line_has_at_most_254_bytes_and_15_digits() -> None:
    assert fed(b"0" * 14 + b"1\r\nx\r\n0\r\n\r\n").content() == b"x"
    assert fed(b"1;" + b"a" * 252 + b"\r\nx\r\n0\r\n\r\n").content() == b"x"
    for line in (b"0" * 15 + b"1\r\n", b"1;" + b"a" * 253 + b"\r\n", b"a" * 256):
        with pytest.raises(MalformedError):
            fed(line)
    assert not fed(b"a" * 255).complete


def test_next_request_is_no_chunk() -> None:
    chunks = fed(b"1\r\nx\r\n0\r\n\r\nGET / HTTP/1.1\r\n")
    assert (chunks.content(), chunks.rest()) == (b"x", b"GET / HTTP/1.1\r\n")


def test_half_a_line_end_is_waited_for() -> None:
    chunks = fed(b"1\r", b"\nx\r", b"\n0\r\n\r")
    assert (chunks.complete, chunks.size, chunks.content()) == (False, 1, b"x")
    chunks.feed(b"\n", 1)
    assert (chunks.complete, chunks.rest()) == (True, b"")


def test_body_up_to_its_limit_is_taken_and_one_byte_more_is_not_kept() -> None:
    for limit, kept in ((2, b"xx"), (1, b"")):
        chunks = ChunkedBody()
        chunks.feed(b"2\r\nxx\r\n0\r\n\r\n", limit)
        assert (chunks.size, chunks.content(), chunks.complete) == (2, kept, limit == 2)


def test_framing_may_be_a_fourth_of_the_data_and_16_kib_more() -> None:
    small = b"1\r\nx\r\n"  # five bytes of framing
    excused = b"14\r\n" + b"x" * 20 + b"\r\n"  # six, of which its data excuse five
    most = fed(small * 3276, b"8\r\n" + b"x" * 8 + b"\r\n")  # 16 * 1024 - 1
    most.feed(excused, 1_000_000)
    with pytest.raises(MalformedError):
        most.feed(excused, 1_000_000)
    large = fed(b"10000\r\n" + b"x" * 65536 + b"\r\n")  # not kept for what follows
    large.feed(small * 3276 + b"4\r\nxxxx\r\n", 1_000_000)  # 16 * 1024
    with pytest.raises(MalformedError):
        large.feed(small, 1_000_000)


def test_announced_size_over_the_limit_keeps_no_data() -> None:
    chunks = ChunkedBody()
    chunks.feed(b"FFFFFFF\r\nhello", 1000)
    assert chunks.size > 1000
    assert chunks.content() == b""


@settings(max_examples=400, deadline=None)
@given(st.lists(st.sampled_from([b"5\r\n", b"hello", b"\r\n", b"0\r\n", b";a", b"\n", b"1", b" "])))
def test_chunks_that_are_accepted_h11_reads_the_same_way(pieces: list[bytes]) -> None:
    wire = b"".join(pieces)
    chunks = ChunkedBody()
    try:
        chunks.feed(wire, 10_000)
    except MalformedError:
        return
    if not chunks.complete:
        return
    other = h11.Connection(h11.SERVER)
    other.receive_data(HEAD + wire)
    other.next_event()
    body = b""
    while isinstance(event := other.next_event(), h11.Data):
        body += event.data
    assert isinstance(event, h11.EndOfMessage)
    assert body == chunks.content()

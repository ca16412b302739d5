"""Records that cost much and bring little: turns between them, and the end of an abuser."""

import asyncio
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given, strategies as st
from support.peers.https import ALICE, client_context
from support.peers.tls_wire import Wire
from support.tls_records import RecordWriter, logged_keys

from keyhouse.server.net.record_meter import LEAST, MOST_EMPTY, MOST_SMALL, RecordMeter
from keyhouse.server.net.tls_transport import RECORDS_READ

HEAD = 5
REQUEST = b"GET / HTTP/1.1\r\nHost: a".ljust(LEAST)


class Client(NamedTuple):
    """A connection whose handshake is complete, and the records of its client."""

    wire: Wire
    writer: RecordWriter

    async def give(self, data: bytes) -> None:
        """Give the server ``data`` as a socket does, turn by turn, as far as it reads."""
        for begin in range(0, len(data), 16_384):
            while not self.wire.socket.is_reading():  # noqa: ASYNC110 - turn after turn
                await asyncio.sleep(0)
            if self.wire.socket.is_closing():
                return
            self.wire.give(data[begin : begin + 16_384])

    async def rest(self) -> None:
        """Wait until the server has read all that it wants."""
        await asyncio.sleep(0)
        while self.wire.transport._rests:  # noqa: ASYNC110 - turn after turn
            await asyncio.sleep(0)


@pytest.fixture(name="client")
def open_client(tmp_path: Path) -> Iterator[Client]:
    context = client_context(ALICE, tmp_path)
    file = logged_keys(context, tmp_path)
    wire = Wire(context)
    wire.flush()
    suite = wire.client.cipher()
    assert suite is not None
    yield Client(wire, RecordWriter(file, suite[0]))
    wire.transport.abort()


# --- turns ---


async def test_records_that_come_together_are_read_turn_by_turn(client: Client) -> None:
    """Whatever they bring: after so many, callbacks of other connections come first."""
    count = 3 * RECORDS_READ + 1
    client.wire.give(b"".join(client.writer.record(b"one byte") for _ in range(count)))
    seen = [len(client.wire.above.pieces)]
    for _ in range(3):
        await asyncio.sleep(0)
        seen.append(len(client.wire.above.pieces))
    assert seen == [RECORDS_READ, 2 * RECORDS_READ, 3 * RECORDS_READ, count]
    assert client.wire.kept == 0


async def test_records_that_come_one_after_the_other_need_no_further_turn(client: Client) -> None:
    """A client that waits for each answer costs no further round of the event loop."""
    for count in range(1, 2 * RECORDS_READ):
        client.wire.give(client.writer.record(b"request"))
        assert len(client.wire.above.pieces) == count


async def test_socket_is_not_read_while_records_wait_for_their_turn(client: Client) -> None:
    client.wire.give(b"".join(client.writer.record(bytes(100)) for _ in range(RECORDS_READ + 9)))
    assert not client.wire.socket.is_reading()
    await asyncio.sleep(0)
    assert client.wire.socket.is_reading()


async def test_one_call_of_openssl_gets_one_record(client: Client) -> None:
    """Fragments of a message bring no data: OpenSSL would go through all of them at once."""
    client.wire.give(client.writer.fragments(b"\x18\x00\x00") + client.writer.record(b"data"))
    given = client.wire.sizes[-1]
    assert client.wire.above.pieces == []  # a record of data within a message: OpenSSL objects
    assert client.wire.above.ended
    assert given > 4 * HEAD


async def test_record_behind_the_handshake_in_one_segment_is_read(tmp_path: Path) -> None:
    wire = Wire(client_context(ALICE, tmp_path))
    finished = wire.outgoing.read()
    wire.give(finished + wire.record(b"one") + wire.record(b"two")[:-1])
    assert wire.above.pieces == [b"one"]
    assert wire.socket.is_reading()


async def test_closing_in_the_middle_of_a_turn_reads_nothing_more(client: Client) -> None:
    client.wire.give(b"".join(client.writer.record(b"x") for _ in range(RECORDS_READ + 1)))
    client.wire.transport.close()
    await asyncio.sleep(0)
    assert len(client.wire.above.pieces) == RECORDS_READ


# --- abusers ---


@pytest.mark.parametrize("kind", ["asking updates", "updates", "empty"])
async def test_sixteen_records_without_data_are_borne_and_one_more_is_not(
    client: Client, kind: str
) -> None:
    def useless() -> bytes:
        if kind == "empty":
            return client.writer.record(b"")
        return client.writer.key_update(asks=kind == "asking updates")

    await client.give(b"".join(useless() for _ in range(MOST_EMPTY)))
    await client.give(client.writer.record(REQUEST))
    await client.rest()
    assert client.wire.above.received == REQUEST
    assert not client.wire.socket.is_closing()
    await client.give(useless())
    await client.rest()
    assert client.wire.socket.aborted
    assert client.wire.above.received == REQUEST


async def test_answer_lets_a_client_begin_again(client: Client) -> None:
    for _ in range(5):
        await client.give(b"".join(client.writer.key_update() for _ in range(MOST_EMPTY)))
        await client.give(client.writer.record(REQUEST))
        await client.rest()
        client.wire.transport.write(b"answer")
    assert client.wire.above.received == REQUEST * 5
    assert not client.wire.socket.is_closing()


async def test_single_bytes_are_borne_for_longer_than_any_head_is(client: Client) -> None:
    await client.give(b"".join(client.writer.record(b"x") for _ in range(MOST_SMALL)))
    await client.rest()
    assert len(client.wire.above.pieces) == MOST_SMALL
    await client.give(client.writer.record(b"x"))
    await client.rest()
    assert client.wire.socket.aborted
    assert len(client.wire.above.pieces) == MOST_SMALL


# --- honest clients ---


@pytest.mark.parametrize(
    "sizes",
    [
        [1] * 4000,  # a person who types, byte by byte
        [2, 20] * 200,  # 100 fields, name and value written apart
        [9, 1400] * 10_000,  # chunks, the size line written apart
        [LEAST] * 100_000,
        [16_384, 0] * 10_000,  # a KeyUpdate after each full record: libraries wait for millions
        [60] * 50_000,  # a body in the tokens of an encoder that does not buffer
    ],
    ids=["bytes", "fields", "chunks", "short", "updates", "tokens"],
)
def test_honest_client_is_never_cut_off(sizes: list[int]) -> None:
    meter = RecordMeter()
    assert all(meter.count(size) for size in sizes)


@pytest.mark.parametrize(
    ("size", "most"), [(0, MOST_EMPTY), (1, MOST_SMALL), (32, MOST_SMALL * (LEAST - 1) // 32)]
)
def test_client_that_brings_little_is_cut_off(size: int, most: int) -> None:
    meter = RecordMeter()
    assert all(meter.count(size) for _ in range(most))
    assert not meter.count(size)
    meter.reset_count()
    assert meter.count(size)


@given(st.lists(st.binary(max_size=300), max_size=20), st.sets(st.integers(0, 6000)))
def test_records_are_the_same_however_their_bytes_are_cut(
    bodies: list[bytes], cuts: set[int]
) -> None:
    records = [b"\x17\x03\x03" + len(body).to_bytes(2, "big") + body for body in bodies]
    data = b"".join(records)
    ends = sorted({0, len(data), *(at for at in cuts if at < len(data))})
    meter, found = RecordMeter(), []
    for begin, end in pairwise(ends):
        meter.unread += data[begin:end]
        while size := meter.whole():
            found.append(meter.remove(size))
    assert found == records
    assert meter.unread == b""


@pytest.mark.parametrize(
    "data", [b"GET / HTTP/1.1\r\n\r\n", b"\x17\x03\x03\xff\xff", b"\x17\x04" + bytes(9)]
)
def test_what_is_no_record_is_not_waited_for(data: bytes) -> None:
    meter = RecordMeter()
    meter.unread += data
    assert meter.whole() == len(data)

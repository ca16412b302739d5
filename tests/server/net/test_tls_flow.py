"""How the bytes of one TLS connection flow: what is held, what waits, and how it ends."""

import asyncio
import gc
import ssl
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.bindings.openssl.binding import Binding
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from support.captured_log import capture_logs
from support.peers.https import ALICE, BOB, SERVER, Pair, client_context, make_pair
from support.peers.tls_wire import Wire
from support.samples.fixed_keys import COSTLY, unused_rsa_key

from keyhouse.base.errors import BrokenError
from keyhouse.base.secret import Secret
from keyhouse.server.net.connections import COSTLY_KEY, TOO_LARGE
from keyhouse.server.net.tls import TlsContext

lib = Binding().lib

RSA = make_pair("rsa", key=unused_rsa_key())
GOODBYE = 512
RECORD = 16 * 1024
FRAMING = 22  # bytes that TLS 1.3 adds to a record
LINGERING = 65536  # bytes that a client may still send after an alert


@pytest.fixture(name="wire")
def open_wire(tmp_path: Path) -> Iterator[Wire]:
    wire = Wire(client_context(ALICE, tmp_path))
    wire.flush()
    assert wire.read() == b""
    yield wire
    assert not lib.ERR_peek_error()


# --- the handshake ---


def test_handshake_continues_when_a_full_socket_has_room_again(tmp_path: Path) -> None:
    wire = Wire(client_context(ALICE, tmp_path))
    wire.socket.full = True
    wire.transport.pause_writing()
    assert not wire.socket.is_reading()
    wire.socket.full = False
    wire.transport.resume_writing()
    assert wire.socket.is_reading()
    wire.flush()
    assert wire.above.told == ["connecting", "made"]


def test_connection_above_is_told_of_each_step_once(tmp_path: Path) -> None:
    wire = Wire(client_context(ALICE, tmp_path))
    assert wire.above.told == ["connecting"]
    wire.flush()
    assert wire.above.told == ["connecting", "made"]
    assert wire.socket.is_reading()
    wire.transport.connection_lost(None)
    assert wire.above.told == ["connecting", "made", "lost"]


def test_tickets_leave_with_what_is_said_first(tmp_path: Path) -> None:
    wire = Wire(client_context(ALICE, tmp_path))

    def greet() -> None:
        wire.transport.write(b"one ")
        wire.transport.write(b"two")

    wire.above.begin = greet
    wire.give(wire.outgoing.read())
    assert len(wire.socket.writes) == 1
    assert wire.read() == b"one two"
    assert wire.client.session is not None
    assert wire.client.session.has_ticket


def test_tickets_leave_where_nothing_is_said(wire: Wire) -> None:
    assert wire.client.session is not None
    assert wire.client.session.has_ticket


def test_tickets_larger_than_the_buffer_leave_whole(tmp_path: Path) -> None:
    large = make_pair("large", padding=45_000)  # two tickets hold it
    wire = Wire(client_context(large, tmp_path), most_bytes=100_000)
    for begin in range(0, len(flight := wire.outgoing.read()), 16_000):
        wire.give(flight[begin : begin + 16_000])
    assert sum(map(len, wire.socket.writes)) > 65536
    wire.transport.write(b"hello")
    assert wire.read() == b"hello"


def _handshake_bytes(context: ssl.SSLContext) -> tuple[int, int]:
    """Return what a client sends: until the server's flight, and in all."""
    wire = Wire(context)
    hello = sum(wire.sizes)
    return hello, hello + len(wire.outgoing.read())


def test_a_handshake_may_have_so_many_bytes_and_not_one_more(tmp_path: Path) -> None:
    pair = make_pair("rsa", key=unused_rsa_key())  # all of one size
    context = client_context(pair, tmp_path, version=ssl.TLSVersion.TLSv1_3)
    hello, total = _handshake_bytes(context)
    wire = Wire(context, most_bytes=total)
    wire.flush()
    assert wire.transport.identity == pair.certificate
    for most in (total - 1, hello + 1, hello):
        with capture_logs() as logged:
            wire = Wire(context, most_bytes=most)
            wire.flush()
        assert [entry.get("reason") for entry in logged] == [TOO_LARGE]
        assert wire.above.told == ["connecting"]
        assert wire.socket.ended
        assert not wire.socket.is_closing()
        assert wire.kept == 0


def test_client_that_is_no_tls_client_gets_an_alert_and_is_not_logged(tmp_path: Path) -> None:
    wire = Wire(client_context(None, tmp_path))
    other = Wire(client_context(None, tmp_path))
    said = b"GET / HTTP/1.1\r\n\r\n"
    last = Wire(client_context(None, tmp_path), most_bytes=wire.sizes[0] + len(said))
    with capture_logs() as logged:
        last.give(said)
        wire.give(said)
        assert not lib.ERR_peek_error()
        other.give(other.outgoing.read()[:20])
    assert wire.socket.taken()
    assert wire.socket.ended
    assert wire.above.told == ["connecting"]
    assert not other.socket.ended
    assert logged == []


@pytest.mark.parametrize("name", COSTLY)
def test_costly_key_ends_the_handshake_with_an_alert_and_what_follows_is_heard_out(
    tmp_path: Path, name: str
) -> None:
    pair = make_pair("costly", key=COSTLY[name])
    wire = Wire(client_context(pair, tmp_path))
    with capture_logs() as logged:
        wire.give(wire.outgoing.read())
    assert [entry["reason"] for entry in logged] == [COSTLY_KEY]
    assert wire.socket.ended
    wire.carry()
    with pytest.raises(ssl.SSLError, match=r"(?i)unsupported.certificate"):
        wire.client.read()
    for _ in range(LINGERING // RECORD):
        wire.give(bytes(RECORD))
    assert not wire.socket.is_closing()
    wire.give(b"x")
    assert wire.socket.aborted
    assert wire.above.told == ["connecting"]
    wire.give(b"x")


def test_protocol_that_was_not_agreed_ends_the_handshake(tmp_path: Path) -> None:
    context = TlsContext(SERVER.key, [SERVER.certificate], alpn=b"h2", required=True)
    wire = Wire(client_context(ALICE, tmp_path), context=context)
    with capture_logs() as logged:
        wire.flush()
    assert wire.above.told == ["connecting"]
    assert wire.socket.ended
    assert logged == []
    client = client_context(ALICE, tmp_path)
    client.set_alpn_protocols(["h2"])
    wire = Wire(client, context=context)
    wire.flush()
    assert wire.above.told == ["connecting", "made"]


def test_end_of_a_client_within_its_handshake_is_the_end(tmp_path: Path) -> None:
    wire = Wire(client_context(None, tmp_path))
    assert not wire.transport.eof_received()
    assert wire.above.told == ["connecting"]
    wire.transport.close()
    assert wire.socket.aborted


# --- in ---


def test_each_record_is_handed_up_by_itself_in_order(wire: Wire) -> None:
    wire.give(wire.record(b"one") + wire.record(b"2") + wire.record(b"three"))
    assert wire.above.pieces == [b"one", b"2", b"three"]


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_half_a_record_keeps_the_socket_read(tmp_path: Path, version: ssl.TLSVersion) -> None:
    wire = Wire(client_context(ALICE, tmp_path, version=version))
    wire.flush()
    wire.read()
    record = wire.record(bytes(2 * GOODBYE))
    wire.give(record[:-1])
    assert wire.above.pieces == []
    assert wire.socket.is_reading()
    wire.give(record[-1:])
    assert wire.above.received == bytes(2 * GOODBYE)


def test_while_held_a_goodbye_is_still_heard_and_no_more(wire: Wire) -> None:
    wire.transport.pause_reading()
    wire.give(wire.record(bytes(GOODBYE - FRAMING)))
    assert wire.socket.is_reading()
    last = wire.record(b"last")
    wire.give(last[:1])
    assert not wire.socket.is_reading()
    wire.give(last[1:])
    assert wire.above.pieces == []
    wire.transport.resume_reading()
    assert wire.above.pieces == [bytes(GOODBYE - FRAMING), b"last"]
    assert wire.socket.is_reading()


def test_connection_above_may_hold_in_the_middle_of_what_came(wire: Wire) -> None:
    wire.above.take = lambda _: wire.transport.pause_reading()
    wire.give(wire.record(b"one") + wire.record(b"two"))
    assert wire.above.pieces == [b"one"]
    wire.transport.resume_reading()
    assert wire.above.pieces == [b"one", b"two"]


def test_nothing_is_handed_up_after_the_connection_above_has_closed(wire: Wire) -> None:
    wire.above.take = lambda _: wire.transport.close(linger=1000)
    wire.give(wire.record(b"one") + wire.record(b"two"))
    assert wire.above.pieces == [b"one"]


def test_taking_again_within_a_piece_does_not_overtake_it(wire: Wire) -> None:
    def again(_: bytes) -> None:
        wire.transport.pause_reading()
        wire.transport.resume_reading()

    wire.above.take = again
    wire.give(wire.record(b"one") + wire.record(b"two"))
    assert wire.above.pieces == [b"one", b"two"]


def test_failure_above_leaves_the_connection_able_to_continue(wire: Wire) -> None:
    def fail(_: bytes) -> None:
        wire.transport.write(b"said before")
        raise ZeroDivisionError

    wire.above.take = fail
    with pytest.raises(ZeroDivisionError):
        wire.give(wire.record(b"one"))
    assert wire.read() == b"said before"
    wire.above.take = lambda _: None
    wire.give(wire.record(b"two"))
    assert wire.above.pieces == [b"two"]


# --- out ---


def test_answers_to_what_came_together_leave_together(wire: Wire) -> None:
    wire.above.take = lambda data: wire.transport.write(data.upper())
    wire.give(wire.record(b"one ") + wire.record(b"two"))
    assert len(wire.socket.writes) == 1
    assert wire.read() == b"ONE TWO"


@pytest.mark.parametrize(
    ("sizes", "writes"),
    [
        ((RECORD, 9, 9), [0, 1, 1]),
        ((RECORD - 1, 1, 9), [0, 0, 1]),
        ((RECORD - 2, 1, 9), [0, 0, 0]),
        ((RECORD, RECORD - 1, 1), [0, 1, 1]),
    ],
)
def test_of_answers_so_much_waits_for_others(
    wire: Wire, sizes: tuple[int, ...], writes: list[int]
) -> None:
    left = list(sizes)
    seen: list[int] = []

    def answer(_: bytes) -> None:
        seen.append(len(wire.socket.writes))
        wire.transport.write(bytes(left.pop(0)))

    wire.above.take = answer
    wire.give(b"".join(wire.record(b"ask") for _ in sizes))
    assert seen == writes
    assert wire.read() == bytes(sum(sizes))


@pytest.mark.parametrize(
    ("size", "records"), [(0, []), (1, [1]), (RECORD, [RECORD]), (RECORD + 1, [RECORD, 1])]
)
def test_answer_leaves_in_records_at_once(wire: Wire, size: int, records: list[int]) -> None:
    wire.transport.write(bytes(size))
    assert [len(each) - FRAMING for each in wire.socket.writes] == records
    assert wire.read() == bytes(size)
    assert "pause" not in wire.above.told


async def test_large_answers_give_way_to_others_after_four_records(wire: Wire) -> None:
    wire.transport.write(bytes(4 * RECORD))
    assert len(wire.socket.writes) == 4
    assert "pause" not in wire.above.told
    wire.read()
    wire.transport.write(bytes(14 * RECORD))
    assert wire.above.told[-1] == "pause"
    seen = [len(wire.socket.writes)]
    wire.transport.write(b"x")
    for _ in range(2):
        seen.append(len(wire.socket.writes))
        assert wire.above.told[2:] == ["pause"]
        await asyncio.sleep(0)
    assert [*seen, len(wire.socket.writes)] == [4, 8, 12, 15]
    assert wire.above.told[2:] == ["pause", "resume"]
    assert wire.read() == bytes(14 * RECORD) + b"x"


def test_while_the_socket_is_full_nothing_is_sent_and_nothing_read(wire: Wire) -> None:
    wire.socket.full = True
    wire.transport.write(b"one ")
    assert wire.above.told[2:] == ["pause"]
    assert not wire.socket.is_reading()
    wire.transport.write(b"two ")
    wire.transport.write(b"three")
    wire.give(wire.record(b"asked"))
    assert len(wire.socket.writes) == 1
    assert wire.above.pieces == []
    wire.transport.resume_writing()  # and full again, after the next record
    assert len(wire.socket.writes) == 2
    wire.transport.resume_writing()
    assert len(wire.socket.writes) == 3
    assert wire.above.told[2:] == ["pause"]
    assert wire.above.pieces == []
    wire.socket.full = False
    wire.transport.resume_writing()
    assert wire.above.told[2:] == ["pause", "resume"]
    assert wire.above.pieces == [b"asked"]
    assert wire.socket.is_reading()
    assert wire.read() == b"one two three"
    wire.socket.full = True
    wire.transport.write(b"four")
    assert wire.above.told[2:] == ["pause", "resume", "pause"]


def test_socket_that_is_full_is_not_read_whatever_is_held(wire: Wire) -> None:
    wire.socket.full = True
    wire.transport.write(b"one")
    wire.transport.pause_reading()
    wire.transport.resume_reading()
    assert not wire.socket.is_reading()
    wire.transport.pause_reading()
    wire.socket.full = False
    wire.transport.resume_writing()
    assert wire.socket.is_reading()


# --- the end ---


def test_close_sends_what_was_written_then_says_so(wire: Wire) -> None:
    wire.transport.write(b"last")
    wire.transport.close()
    assert wire.socket.is_closing()
    assert not wire.socket.aborted
    assert wire.read() == b"last"
    assert wire.is_over()
    wire.transport.write(b"more")
    wire.transport.close(linger=9)
    assert wire.socket.writes == []
    assert not wire.socket.aborted


def test_close_waits_for_a_full_socket(wire: Wire) -> None:
    wire.socket.full = True
    wire.transport.write(b"one ")
    wire.transport.write(b"two")
    wire.transport.close()
    wire.transport.write(b"three")
    assert wire.read() == b"one "
    assert not wire.socket.is_closing()
    wire.transport.resume_writing()
    assert wire.socket.is_closing()
    assert wire.read() == b"two"
    assert wire.is_over()
    assert "resume" not in wire.above.told


async def test_close_waits_for_the_turns_of_a_large_answer(wire: Wire) -> None:
    wire.transport.write(bytes(10 * RECORD))
    wire.transport.close()
    assert not wire.socket.is_closing()
    await asyncio.sleep(0)
    assert wire.socket.is_closing()
    assert wire.read() == bytes(10 * RECORD)
    assert wire.is_over()


async def test_what_comes_while_a_large_answer_still_goes_out_is_bounded(wire: Wire) -> None:
    wire.transport.write(bytes(10 * RECORD))
    wire.transport.close(linger=RECORD)
    wire.give(wire.record(bytes(GOODBYE)))
    assert not wire.socket.is_reading()
    await asyncio.sleep(0)
    assert wire.socket.ended
    assert wire.socket.is_reading()


def test_who_may_still_be_sending_is_heard_out_so_far(wire: Wire) -> None:
    wire.transport.close(linger=100)
    assert wire.socket.ended
    assert not wire.socket.is_closing()
    wire.transport.close()
    wire.give(bytes(99))
    wire.give(bytes(1))
    assert not wire.socket.is_closing()
    wire.give(bytes(1))
    assert wire.socket.aborted
    wire.give(bytes(1))
    assert wire.kept == 0
    assert wire.above.pieces == []


def test_who_was_held_is_heard_out_too(wire: Wire) -> None:
    """Else a client that sends all before it reads would wait for the deadline."""
    wire.transport.pause_reading()
    wire.give(wire.record(bytes(2 * GOODBYE)))
    assert not wire.socket.is_reading()
    wire.transport.close(linger=100)
    assert wire.socket.ended
    assert wire.socket.is_reading()


def test_who_has_ended_is_not_waited_for(wire: Wire) -> None:
    wire.socket.full = True
    wire.transport.write(b"one ")
    wire.transport.write(b"two")
    wire.transport.close(linger=100)
    assert wire.transport.eof_received()  # what was written still goes out
    assert "eof" not in wire.above.told
    wire.transport.resume_writing()
    assert wire.socket.is_closing()
    assert not wire.socket.ended


def test_end_of_the_stream_is_the_end(wire: Wire) -> None:
    assert not wire.transport.eof_received()
    assert wire.above.told[2:] == ["eof"]
    assert wire.socket.is_closing()
    assert wire.is_over()


def test_close_notify_is_answered_with_what_was_still_to_say(wire: Wire) -> None:
    with pytest.raises((ssl.SSLWantReadError, ssl.SSLSyscallError)):
        wire.client.unwrap()
    told = wire.above.told
    wire.socket.full = True
    wire.transport.write(b"one ")
    wire.transport.write(b"two")
    wire.socket.full = False
    wire.give(wire.outgoing.read())
    assert told[2:] == ["pause"]  # nothing is read as long as the socket is full
    wire.transport.resume_writing()
    assert told[2:] == ["pause", "resume", "eof"]
    assert wire.socket.is_closing()


async def test_broken_record_takes_back_what_waited_and_its_alert_arrives(wire: Wire) -> None:
    wire.transport.write(bytes(6 * RECORD))
    record = bytearray(wire.record(b"ask"))
    record[-1] ^= 1
    wire.give(bytes(record))
    assert wire.above.told[2:] == ["pause", "eof"]
    assert wire.socket.ended
    await asyncio.sleep(0)
    assert not wire.socket.is_closing()
    wire.carry()
    assert len(wire.client.read(1 << 20)) > 0
    for _ in range(LINGERING // RECORD):
        wire.give(bytes(RECORD))
    assert not wire.socket.is_closing()
    wire.give(b"x")
    assert wire.socket.aborted


def test_socket_that_is_closing_by_itself_is_left_alone(tmp_path: Path) -> None:
    for end in ("close", "broken record"):
        wire = Wire(client_context(ALICE, tmp_path))
        wire.flush()
        record = wire.record(bytes(2 * GOODBYE))
        wire.socket.close()  # as after an error of the network: the loop tells it later
        wire.transport.write(b"lost")
        if end == "close":
            wire.transport.pause_reading()
            wire.give(record)
            wire.transport.close(linger=100)
        else:
            wire.give(record[:-1] + bytes([record[-1] ^ 1]))
        assert wire.socket.writes == []
        assert not wire.socket.ended
        assert wire.socket.is_reading()


def test_abort_loses_what_waits(wire: Wire) -> None:
    wire.socket.full = True
    wire.transport.write(b"one ")
    wire.transport.write(b"two")
    wire.transport.abort()
    assert wire.socket.aborted
    wire.give(wire.record(b"late"))
    wire.transport.resume_writing()
    wire.transport.write(b"late")
    assert wire.above.pieces == []
    assert wire.read() == b"one "


def test_lost_connection_is_freed_without_the_collector(tmp_path: Path) -> None:
    wire = Wire(client_context(ALICE, tmp_path))
    wire.flush()
    seen = weakref.ref(wire.transport)
    wire.transport.connection_lost(None)
    gc.disable()
    try:
        del wire
        assert seen() is None
    finally:
        gc.enable()


async def test_lost_connection_keeps_nothing_and_does_nothing(wire: Wire) -> None:
    answer = bytes(6 * RECORD)
    before = sys.getrefcount(answer)
    wire.transport.write(answer)
    assert sys.getrefcount(answer) > before
    sent = len(wire.socket.writes)
    wire.transport.connection_lost(ConnectionResetError())
    assert sys.getrefcount(answer) == before
    assert wire.above.told[2:] == ["pause", "ConnectionResetError"]
    await asyncio.sleep(0)
    wire.transport.pause_reading()
    wire.transport.resume_reading()
    wire.transport.close()
    wire.transport.abort()
    assert len(wire.socket.writes) == sent
    assert not wire.socket.is_closing()
    assert wire.above.told[2:] == ["pause", "ConnectionResetError"]


@pytest.mark.parametrize("own", [SERVER, RSA], ids=["EC", "RSA"])
def test_served_chain_is_the_leaf_and_what_stands_behind_it(tmp_path: Path, own: Pair) -> None:
    chain = [own.certificate, ALICE.certificate, BOB.certificate]
    wire = Wire(client_context(None, tmp_path), context=TlsContext(own.key, chain))
    sent: Any = getattr(wire.client, "_sslobj").get_unverified_chain()  # noqa: B009 - no type has it
    assert [ssl.PEM_cert_to_DER_cert(each.public_bytes()) for each in sent] == chain


def test_key_or_certificate_that_tls_cannot_use_is_refused() -> None:
    edwards = ed25519.Ed25519PrivateKey.generate()
    pkcs8 = (Encoding.DER, PrivateFormat.PKCS8)
    locked = edwards.private_bytes(*pkcs8, BestAvailableEncryption(b"password"))
    version = SERVER.certificate.replace(b"\xa0\x03\x02\x01\x02", b"\xa0\x03\x02\x01\x05", 1)
    for key, certificate, message in (
        (edwards.private_bytes(*pkcs8, NoEncryption()), SERVER.certificate, "EC or RSA key"),
        (locked, SERVER.certificate, "cannot be read"),
        (SERVER.key.reveal(), version, "cannot be read"),
    ):
        with pytest.raises(BrokenError, match=message):
            TlsContext(Secret(key), [certificate])

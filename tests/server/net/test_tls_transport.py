"""TLS as it is served, between a TCP transport and a connection whose bytes are in our hands."""

import asyncio
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.bindings.openssl.binding import Binding
from OpenSSL import SSL
from support.peers.https import ALICE, SERVER, client_context

from keyhouse.base.errors import BrokenError
from keyhouse.server.net.handshakes import Handshakes
from keyhouse.server.net.limits import Limits
from keyhouse.server.net.tls import TlsContext
from keyhouse.server.net.tls_transport import TlsTransport
from keyhouse.server.net.transport import Transport

GET = b"GET /status HTTP/1.1\r\nHost: a\r\n\r\n"
LARGER_THAN_A_HANDSHAKE = GET * 600

lib, ffi = Binding().lib, Binding.ffi


class Socket(asyncio.Transport):
    """The TCP transport: keeps what is sent."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = bytearray()
        self.ended = self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.sent += data

    def write_eof(self) -> None:
        self.ended = True

    def close(self) -> None:
        self.closed = True

    abort = close

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None:
        raise AssertionError("nothing here is too much")

    resume_reading = pause_reading


class Connection:
    """The connection above: keeps what comes."""

    def __init__(self) -> None:
        self.received = b""
        self.ended = False

    def connecting(self, transport: Transport) -> None:
        """The TCP connection is there."""

    def connection_made(self) -> None:
        """The handshake is complete."""

    def data_received(self, data: bytes) -> None:
        """Keep ``data``."""
        self.received += bytes(data)

    def eof_received(self) -> None:
        """The client sends no more."""
        self.ended = True

    def pause_writing(self) -> None:
        """Not here."""

    def resume_writing(self) -> None:
        """Not here."""

    def connection_lost(self, exc: Exception | None) -> None:
        """The end."""


class Wire:
    """A client and the served transport without sockets. ``soiled``: see ``soil``."""

    def __init__(self, client: ssl.SSLContext, *, soiled: bool = False) -> None:
        context = TlsContext(SERVER.key, [SERVER.certificate])
        self.socket, self.above = Socket(), Connection()
        handshakes = Handshakes(Limits().handshake_bytes)
        self.transport = TlsTransport(context, self.above, handshakes)
        self.transport.connection_made(self.socket)
        self._soiled = soiled
        self._incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.client = client.wrap_bio(self._incoming, self.outgoing, server_hostname="localhost")
        self._shake_hands()

    def _shake_hands(self) -> None:
        """Complete the client's handshake, but keep its last flight back."""
        for _ in range(10):
            try:
                self.client.do_handshake()
            except ssl.SSLWantReadError:
                self.flush()
            else:
                return

    def flush(self) -> None:
        """Carry what the client sends to the server, and the other way."""
        self.feed(self.outgoing.read())

    def feed(self, data: bytes) -> None:
        """Give the server ``data`` as it comes from a socket."""
        if self._soiled:
            soil()
        inbox = self.transport.get_buffer(-1)
        inbox[: len(data)] = data
        self.transport.buffer_updated(len(data))
        self._incoming.write(self.socket.sent)
        self.socket.sent.clear()


def soil() -> None:
    """Leave an error in OpenSSL's queue of this thread, as other cryptography may."""
    lib.ERR_put_error(6, 0, 100, b"test", 1)
    assert lib.ERR_peek_error()


@pytest.fixture(name="wire")
def open_wire(tmp_path: Path) -> Iterator[Wire]:
    wire = Wire(client_context(ALICE, tmp_path))
    wire.flush()
    yield wire
    assert not lib.ERR_peek_error()


@pytest.mark.parametrize("request_", [GET, LARGER_THAN_A_HANDSHAKE], ids=["small", "large"])
def test_request_in_the_last_flight_of_the_handshake_is_not_forgotten(
    tmp_path: Path, request_: bytes
) -> None:
    wire = Wire(client_context(ALICE, tmp_path))
    wire.client.write(request_)
    wire.flush()
    assert wire.transport.identity == ALICE.certificate
    assert wire.above.received == request_


def test_record_that_arrives_byte_by_byte_is_read_once(wire: Wire) -> None:
    wire.client.write(GET)
    record = wire.outgoing.read()
    for byte in record[:-1]:
        wire.feed(bytes([byte]))
        assert wire.above.received == b""
    wire.feed(record[-1:])
    assert wire.above.received == GET
    assert not wire.above.ended


def test_changed_byte_ends_the_connection_with_an_alert(wire: Wire) -> None:
    wire.client.write(GET)
    record = bytearray(wire.outgoing.read())
    record[-1] ^= 1
    wire.feed(bytes(record))
    assert wire.above.received == b""
    assert wire.above.ended
    assert wire.socket.ended
    with pytest.raises(ssl.SSLError, match=r"(?i)bad.record.mac"):
        wire.client.read()


def test_stale_error_of_other_code_does_not_end_a_connection(tmp_path: Path) -> None:
    wire = Wire(client_context(ALICE, tmp_path), soiled=True)
    wire.flush()
    assert wire.transport.identity == ALICE.certificate
    wire.client.write(GET)
    record = wire.outgoing.read()
    wire.feed(record[:-1])
    wire.feed(record[-1:])
    assert wire.above.received == GET
    soil()
    wire.transport.write(b"x" * 100)
    wire.feed(b"")
    assert wire.client.read() == b"x" * 100
    assert not wire.above.ended


def test_errors_of_a_connection_are_not_left_to_other_code(wire: Wire) -> None:
    wire.feed(b"\x17\x03\x03\x00\x20" + bytes(32))  # no record of this connection
    assert wire.above.ended
    assert not lib.ERR_peek_error()


def test_close_notify_is_the_end(wire: Wire) -> None:
    with pytest.raises((ssl.SSLWantReadError, ssl.SSLSyscallError)):
        wire.client.unwrap()
    wire.flush()
    assert wire.above.ended
    assert wire.socket.closed
    with pytest.raises(ssl.SSLZeroReturnError):
        wire.client.read()


def test_context_refuses_a_second_thread() -> None:
    context = TlsContext(SERVER.key, [SERVER.certificate])
    handshakes = Handshakes(Limits().handshake_bytes)
    TlsTransport(context, Connection(), handshakes)
    problems: list[Exception] = []

    def use() -> None:
        try:
            TlsTransport(context, Connection(), handshakes)
        except BrokenError as broken:
            problems.append(broken)

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    assert len(problems) == 1


def test_keys_are_logged_for_nobody_where_openssl_would(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some builds of OpenSSL set such a callback in every context, for ``SSLKEYLOGFILE``."""
    leaked: list[bytes] = []

    @ffi.callback("void (*)(const SSL *, const char *)")  # type: ignore[untyped-decorator]  # cffi has no types
    def leak(_session: object, line: object) -> None:
        leaked.append(bytes(ffi.string(line)))

    class LeakingContext(SSL.Context):
        def __init__(self, method: int) -> None:
            super().__init__(method)
            lib.SSL_CTX_set_keylog_callback(self._context, leak)

    monkeypatch.setattr(SSL, "Context", LeakingContext)
    wire = Wire(client_context(ALICE, tmp_path))
    wire.flush()
    assert wire.transport.identity == ALICE.certificate
    assert not leaked

"""TLS as it is served, between a TCP transport and a connection whose bytes are in our hands."""

import os
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.bindings.openssl.binding import Binding
from OpenSSL import SSL
from support.peers.https import ALICE, SERVER, client_context, make_pair
from support.peers.tls_wire import Above, Wire, soil

from keyhouse.base.errors import BrokenError
from keyhouse.server.net.connections import Handshakes
from keyhouse.server.net.limits import Limits
from keyhouse.server.net.tls import TlsContext
from keyhouse.server.net.tls_transport import TlsTransport

GET = b"GET /status HTTP/1.1\r\nHost: a\r\n\r\n"
LARGER_THAN_A_HANDSHAKE = GET * 600

lib, ffi = Binding().lib, Binding.ffi


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
    assert not wire.above.ended


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
    assert wire.socket.is_closing()
    with pytest.raises(ssl.SSLZeroReturnError):
        wire.client.read()


def test_handshakes_leave_no_memory_behind(tmp_path: Path) -> None:
    client = client_context(make_pair("large", padding=12_000), tmp_path)
    context = TlsContext(SERVER.key, [SERVER.certificate])

    def connect(times: int) -> int:
        for _ in range(times):
            wire = Wire(client, context=context)
            wire.flush()
            wire.transport.connection_lost(None)
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")

    before = connect(60)
    assert connect(60) - before < 60 * 12_000


def test_idle_connections_keep_no_buffers_of_openssl() -> None:
    context = TlsContext(SERVER.key, [SERVER.certificate])._server
    assert context.set_mode(0) & SSL.MODE_RELEASE_BUFFERS


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_groups_that_are_not_listed_are_refused(tmp_path: Path, version: ssl.TLSVersion) -> None:
    client = client_context(None, tmp_path, version=version)
    client.set_ecdh_curve("secp521r1")
    with pytest.raises(ssl.SSLError, match="ALERT_HANDSHAKE_FAILURE"):
        Wire(client)


def test_no_chain_of_a_client_is_verified_beyond_its_leaf() -> None:
    assert TlsContext(SERVER.key, [SERVER.certificate])._server.get_verify_depth() == 0


def test_context_refuses_a_second_thread() -> None:
    context = TlsContext(SERVER.key, [SERVER.certificate])
    handshakes = Handshakes(Limits().handshake_bytes)
    TlsTransport(context, Above(), handshakes)
    problems: list[Exception] = []

    def use() -> None:
        try:
            TlsTransport(context, Above(), handshakes)
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


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
def test_old_versions_are_refused_also_by_an_openssl_that_would_take_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: ssl.TLSVersion
) -> None:
    """Its security level, which rules them out by default, is a matter of its configuration."""

    class LaxContext(SSL.Context):
        def __init__(self, method: int) -> None:
            super().__init__(method)
            self.set_cipher_list(b"ALL:@SECLEVEL=0")

    monkeypatch.setattr(SSL, "Context", LaxContext)
    client = client_context(None, tmp_path, version=version)
    client.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.raises(ssl.SSLError, match="ALERT_PROTOCOL_VERSION"):
        Wire(client)


def _session_id_context(wire: Wire) -> bytes:
    """Return what marks the served session as one of its context, which OpenSSL compares."""
    session = lib.SSL_get_session(wire.transport._ssl)
    room = ffi.new("unsigned char[]", lib.i2d_SSL_SESSION(session, ffi.NULL))
    lib.i2d_SSL_SESSION(session, ffi.new("unsigned char **", room))
    _, mark, rest = bytes(ffi.buffer(room)).partition(b"\xa4\x22\x04\x20")  # [4] OCTET STRING
    assert mark
    return rest[:32]


def test_sessions_of_each_context_are_marked_as_its_own(tmp_path: Path) -> None:
    context = TlsContext(SERVER.key, [SERVER.certificate])
    wires = [Wire(client_context(ALICE, tmp_path), context=context) for _ in range(2)]
    wires.append(Wire(client_context(ALICE, tmp_path)))
    for wire in wires:
        wire.flush()
    first, second, other = map(_session_id_context, wires)
    assert first == second
    assert first != other

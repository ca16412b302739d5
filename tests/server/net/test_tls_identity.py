"""Who the client is: the leaf whose key signed the handshake, in every way to connect."""

import gc
import os
import socket
import ssl
import subprocess
import sys
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from OpenSSL import SSL
from support.peers.https import (
    ALICE,
    BOB,
    SERVER,
    Client,
    Pair,
    Running,
    client_context,
    fingerprint,
    make_pair,
    running,
)
from support.samples.fixed_keys import dsa_key, unused_rsa_key

from keyhouse.base.errors import BrokenError
from keyhouse.base.secret import Secret
from keyhouse.server.http.connection import HttpConnection
from keyhouse.server.net.tls import TlsContext, lib, pointer
from keyhouse.server.net.tls_transport import TlsTransport

VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]
GET = b"GET /status HTTP/1.1\r\nHost: a\r\n\r\n"

each_version = pytest.mark.parametrize("version", VERSIONS, ids=["tls12", "tls13"])


@pytest.fixture(name="server", scope="module")
def running_server() -> Iterator[Running]:
    with running() as server:
        yield server


@each_version
def test_identity_is_the_own_leaf_also_when_resumed(
    server: Running, tmp_path: Path, version: ssl.TLSVersion
) -> None:
    context = client_context(ALICE, tmp_path, version=version)
    with Client(server.port, context) as client:
        assert client.get("/status")[1]["identity"] == fingerprint(ALICE)
        assert client.tls.version() == version.name.replace("_", ".")
        session = client.tls.session
    for _ in range(2):
        with Client(server.port, context, session) as client:
            assert client.get("/status")[1]["identity"] == fingerprint(ALICE)
            assert client.tls.session_reused


@each_version
def test_appended_certificate_of_another_user_is_not_the_identity(
    server: Running, tmp_path: Path, version: ssl.TLSVersion
) -> None:
    context = client_context(BOB, tmp_path, version=version, appended=(ALICE, SERVER))
    with Client(server.port, context) as client:
        assert client.get("/status")[1]["identity"] == fingerprint(BOB)
        session = client.tls.session
    with Client(server.port, context, session) as client:
        assert client.get("/status")[1]["identity"] == fingerprint(BOB)
        assert client.tls.session_reused


@each_version
def test_client_without_certificate_has_no_identity(
    server: Running, tmp_path: Path, version: ssl.TLSVersion
) -> None:
    with Client(server.port, client_context(None, tmp_path, version=version)) as client:
        assert client.get("/status")[1]["identity"] is None


ODD_PAIRS: dict[str, Callable[[], Pair]] = {
    "expired": lambda: make_pair("alice", expired=True),
    "large": lambda: make_pair("alice", padding=12_000),
    "P-384": lambda: make_pair("alice", key=ec.generate_private_key(ec.SECP384R1())),
    "RSA": lambda: make_pair("alice", key=unused_rsa_key()),
}


@pytest.mark.parametrize("make", ODD_PAIRS.values(), ids=ODD_PAIRS.keys())
@each_version
def test_any_certificate_identifies(
    server: Running, tmp_path: Path, make: Callable[[], Pair], version: ssl.TLSVersion
) -> None:
    pair = make()
    with Client(server.port, client_context(pair, tmp_path, version=version)) as client:
        assert client.get("/status")[1]["identity"] == fingerprint(pair)


def test_key_of_a_kind_that_is_not_accepted_gives_no_identity(
    server: Running, tmp_path: Path
) -> None:
    pair = make_pair("alice", key=dsa_key())
    context = client_context(pair, tmp_path, version=ssl.TLSVersion.TLSv1_2)
    context.set_ciphers("DEFAULT@SECLEVEL=0")
    with Client(server.port, context) as client:
        assert client.get("/status")[1]["identity"] is None


@each_version
def test_endless_certificate_chain_is_refused_and_others_are_served(
    server: Running, tmp_path: Path, version: ssl.TLSVersion
) -> None:
    long = make_pair("long", padding=30_000)
    failed = server.listener.connections.failed_handshakes
    context = client_context(ALICE, tmp_path, version=version, appended=(long,) * 4)
    with pytest.raises((OSError, EOFError)), Client(server.port, context) as client:
        client.get("/status")
    assert server.do_until(lambda: server.listener.connections.failed_handshakes == failed + 1)
    with Client(server.port, client_context(ALICE, tmp_path)) as client:
        assert client.get("/status")[0] == 200


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
def test_old_versions_are_refused_with_an_alert(
    server: Running, tmp_path: Path, version: ssl.TLSVersion
) -> None:
    context = client_context(None, tmp_path)
    context.minimum_version = context.maximum_version = version
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.raises(ssl.SSLError, match="ALERT_PROTOCOL_VERSION"):
        Client(server.port, context)


def test_ciphers_without_forward_secrecy_are_refused(server: Running, tmp_path: Path) -> None:
    context = client_context(None, tmp_path, version=ssl.TLSVersion.TLSv1_2)
    context.set_ciphers("AES128-SHA:ECDHE-ECDSA-AES128-SHA:AES128-GCM-SHA256")
    with pytest.raises(ssl.SSLError, match="HANDSHAKE_FAILURE"):
        Client(server.port, context)


def test_the_server_chooses_the_cipher(server: Running, tmp_path: Path) -> None:
    context = client_context(None, tmp_path, version=ssl.TLSVersion.TLSv1_2)
    context.set_ciphers("ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-ECDSA-AES256-GCM-SHA384")
    with Client(server.port, context) as client:
        assert client.tls.cipher() == ("ECDHE-ECDSA-AES256-GCM-SHA384", "TLSv1.2", 256)


@each_version
def test_a_session_is_forgotten_after_an_hour(
    server: Running, tmp_path: Path, version: ssl.TLSVersion
) -> None:
    with Client(server.port, client_context(ALICE, tmp_path, version=version)) as client:
        client.get("/status")
        assert client.tls.session is not None
        assert client.tls.session.ticket_lifetime_hint == 3600


def test_nothing_is_compressed() -> None:
    """OpenSSL says so by itself, since 1.1.0: a build that does not would be noticed here."""
    native = pointer(TlsContext(SERVER.key, [SERVER.certificate])._server)
    assert lib.SSL_CTX_get_options(native) & SSL.OP_NO_COMPRESSION


def test_nothing_is_renegotiated() -> None:
    """OpenSSL refuses what a client asks by itself, since 3.0; ``test_tls_clients`` asks it."""
    native = pointer(TlsContext(SERVER.key, [SERVER.certificate])._server)
    assert lib.SSL_CTX_get_options(native) & lib.SSL_OP_NO_RENEGOTIATION


def test_client_that_offers_other_protocols_only_is_refused(
    server: Running, tmp_path: Path
) -> None:
    context = client_context(None, tmp_path)
    context.set_alpn_protocols(["h2", "http/1.0"])
    with pytest.raises(ssl.SSLError, match=r"(?i)no.application.protocol"):
        Client(server.port, context)
    context.set_alpn_protocols(["h2", "http/1.1"])
    with Client(server.port, context) as client:
        assert client.tls.selected_alpn_protocol() == "http/1.1"


@each_version
def test_workload_context_insists_on_certificate_and_protocol(
    tmp_path: Path, version: ssl.TLSVersion
) -> None:
    with running(alpn=b"h2", required=True) as server:

        def serves(pair: Pair | None, *protocols: str) -> bool:
            context = client_context(pair, tmp_path, version=version)
            if protocols:
                context.set_alpn_protocols(list(protocols))
            try:
                with Client(server.port, context) as client:
                    return bool(client.get("/status")[1]["identity"] == fingerprint(ALICE))
            except (OSError, EOFError):
                return False

        assert serves(ALICE, "h2")
        assert serves(ALICE, "http/1.1", "h2")
        assert not serves(None, "h2")
        assert not serves(ALICE, "http/1.1")
        assert not serves(ALICE)


@each_version
def test_workloads_resume_nothing(tmp_path: Path, version: ssl.TLSVersion) -> None:
    context = client_context(ALICE, tmp_path, version=version)
    context.set_alpn_protocols(["h2"])
    with running(alpn=b"h2", required=True) as server:
        with Client(server.port, context) as client:
            client.get("/status")
            session = client.tls.session
        with Client(server.port, context, session) as client:
            assert client.get("/status")[1]["identity"] == fingerprint(ALICE)
            assert not client.tls.session_reused


def test_missing_certificate_is_told_to_a_workload(tmp_path: Path) -> None:
    context = client_context(None, tmp_path, version=ssl.TLSVersion.TLSv1_3)
    context.set_alpn_protocols(["h2"])
    with (
        running(alpn=b"h2", required=True) as server,
        Client(server.port, context) as client,
        pytest.raises(ssl.SSLError, match="ALERT_CERTIFICATE_REQUIRED"),
    ):
        client.tls.recv(10)


def test_session_of_one_listener_does_not_resume_at_another(tmp_path: Path) -> None:
    for version in VERSIONS:
        context = client_context(ALICE, tmp_path, version=version)
        with running() as first, running() as second:
            with Client(first.port, context) as client:
                client.get("/status")
                session = client.tls.session
            with Client(second.port, context, session) as client:
                assert client.get("/status")[1]["identity"] == fingerprint(ALICE)
                assert not client.tls.session_reused


def test_key_of_another_certificate_is_refused() -> None:
    with pytest.raises(BrokenError, match="does not belong"):
        TlsContext(ALICE.key, [SERVER.certificate])
    with pytest.raises(BrokenError, match="cannot be read"):
        TlsContext(Secret(b"\x30\x00"), [SERVER.certificate])
    with pytest.raises(BrokenError):
        TlsContext(SERVER.key, [])


def test_closed_session_is_freed_without_the_collector(tmp_path: Path) -> None:
    with running() as server:
        seen: list[weakref.ref[TlsTransport]] = []

        def note() -> None:
            for connection in server.listener._service.all():
                assert isinstance(connection, HttpConnection)
                transport = connection._transport
                assert isinstance(transport, TlsTransport)
                seen.append(weakref.ref(transport))

        gc.disable()
        try:
            with Client(server.port, client_context(ALICE, tmp_path)) as client:
                client.get("/status")
                server.do(note)
            assert server.do_until(lambda: bool(seen) and seen[0]() is None)
        finally:
            gc.enable()


def test_key_log_variable_has_no_effect(tmp_path: Path) -> None:
    log = tmp_path / "keys"
    code = (
        "import socket, ssl, pathlib, tempfile\n"
        "from support.peers.https import *\n"
        "with running() as server:\n"
        "    context = client_context(None, pathlib.Path(tempfile.mkdtemp()))\n"
        "    with Client(server.port, context) as client:\n"
        "        print(client.get('/status')[0])\n"
    )
    environment = {
        "SSLKEYLOGFILE": str(log),
        "PYTHONPATH": str(Path(__file__).parents[2]),
        "PATH": os.environ["PATH"],
    }
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, check=True, timeout=60
    )
    assert done.stdout.startswith(b"200")
    assert not log.exists()


def test_client_that_vanishes_in_its_handshake_leaves_nothing(server: Running) -> None:
    for sent in (b"", b"\x16\x03\x01\x02\x00\x01", b"GET / HTTP/1.1\r\n\r\n", b"\0" * 600):
        with socket.create_connection(("127.0.0.1", server.port), timeout=20) as raw:
            raw.sendall(sent)
    assert server.do_until(lambda: not len(server.listener.connections))

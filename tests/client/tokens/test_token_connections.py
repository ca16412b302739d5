"""A user's key stays on a token, and the pin of the peer's certificate holds as without one."""

import asyncio
import base64
import json
import os
import signal
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from support.peers.peer import Certified, Flood, certify, listening, serving, success
from support.peers.sdk import MODES, Mode, connected, session_with, trust_in_peer
from support.process.softhsm import (
    PIN,
    TOKEN,
    children,
    identity,
    known_to,
    needs_engine,
    on_token,
    trusted,
)

from keyhouse.base.secret import Secret
from keyhouse.client import (
    NO_RETRIES,
    Address,
    AsyncCoordinator,
    Coordinator,
    SecretUpload,
    Timeouts,
    TokenIdentity,
    TrustedCoordinator,
    TrustError,
    UnreachableError,
)
from keyhouse.client.http.pinned_tls import pinned_context
from keyhouse.client.tokens.openssl_program import TokenTls, start
from keyhouse.client.tokens.transport import TokenTransport

KINDS = ("EC", "P-384", "RSA")


@contextmanager
def echoing(served: Certified, folder: Path) -> Iterator[Address]:
    """Serve TLS to one client, and send back what it sends."""
    chain = folder / "echo.pem"
    chain.write_bytes(served.key_pem + served.pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain)

    def echo(server: socket.socket) -> None:
        with server.accept()[0] as plain, context.wrap_socket(plain, server_side=True) as peer:
            while heard := peer.recv(1024):
                peer.sendall(heard)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=echo, args=(server,))
        thread.start()
        yield Address("127.0.0.1", server.getsockname()[1])
        thread.join()


@needs_engine
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", KINDS)
def test_the_token_signs_the_handshake_and_the_connection_is_kept(
    tmp_path: Path, mode: Mode, kind: str
) -> None:
    peer, before = known_to(kind), children()
    with (
        serving(peer, tmp_path) as address,
        connected(mode, address, trust_in_peer(peer), identity(kind)) as session,
    ):
        assert session.status().code == 3
        running = children() - before
        assert session.status().code == 3
        assert children() - before == running
        assert len(running) == 1
    assert peer.client_certificates[1:] == [on_token(kind).der] * 2
    assert children() == before


@needs_engine
@pytest.mark.parametrize("mode", MODES)
def test_large_bodies_come_through_whole(tmp_path: Path, mode: Mode) -> None:
    peer, large = known_to("EC"), os.urandom(1_500_000)
    peer.replies["POST", "/api/v2/secrets"] = success(None)
    peer.replies["GET", "/api/v2/update"] = success(
        {"updateLog": [f'{{"update":"{large.hex()}"}}']}
    )
    with (
        serving(peer, tmp_path) as address,
        connected(mode, address, trust_in_peer(peer), identity()) as session,
    ):
        assert session.update_log()[0].update == large.hex()
        session.write_secrets({"note": SecretUpload(key=Secret(large))})
    sent = json.loads(peer.requests[-1][2])["secrets"]["note"]["key"]
    assert base64.b64decode(sent) == large


@needs_engine
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("who", ["workload", "twin", "twin alone", "intermediate", "same names"])
def test_another_certificate_hears_no_byte(tmp_path: Path, who: str, mode: Mode) -> None:
    peer = known_to("EC")
    with serving(peer, tmp_path) as address:
        verified = trusted(peer, address)
    twin = certify("Root", peer.root)  # the same names, signed by the root itself
    served = {
        "workload": (certify("Root", peer.intermediate, is_ca=False), peer.intermediate, peer.root),
        "twin": (twin, peer.root),
        "twin alone": (twin,),
        "intermediate": (peer.intermediate, peer.root),
        "same names": (certify("Root"),),
    }[who]
    before = children()
    with listening(served, tmp_path) as (elsewhere, heard):
        moved = msgspec.structs.replace(verified, address=elsewhere)
        with (
            session_with(mode, moved, identity()) as session,
            pytest.raises(TrustError, match="not the verified root"),
        ):
            session.status()
    assert b"".join(heard) == b""
    assert children() == before


@needs_engine
def test_the_letters_that_are_commands_to_openssl_are_sent(tmp_path: Path) -> None:
    root = certify("Root")
    with echoing(root, tmp_path) as address:
        program = start(TokenTls(identity(), root.der), address)
        try:
            for letters in (b"Q\n", b"R\n", b"K\n", b"k\n", b"B\n", b"C\n", b"end"):
                program.plain.sendall(letters)
                assert program.plain.recv(16) == letters
        finally:
            program.end()


@needs_engine
def test_a_program_whose_owner_has_gone_ends_by_itself(tmp_path: Path) -> None:
    root = certify("Root")
    with echoing(root, tmp_path) as address:
        program = start(TokenTls(identity(), root.der), address)
        try:
            program.plain.sendall(b"hello")
            assert program.plain.recv(16) == b"hello"
            program.plain.shutdown(socket.SHUT_WR)
            assert program.plain.recv(16) == b""
        finally:
            program.end()


@needs_engine
@pytest.mark.parametrize("age", ["not yet", "no longer"])
def test_a_root_that_is_not_valid_now_is_refused_before_anything_is_started(age: str) -> None:
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Root")])
    begin = now + timedelta(days=1 if age == "not yet" else -3)
    root = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + timedelta(days=2))
        .sign(key, hashes.SHA256())
    )
    before = children()
    with pytest.raises(TrustError, match="not valid at this time"):
        start(TokenTls(identity(), root.public_bytes(Encoding.DER)), Address("127.0.0.1", 1))
    assert children() == before


@needs_engine
async def test_many_calls_run_at_the_same_time(somewhere: TrustedCoordinator) -> None:
    async with AsyncCoordinator(somewhere, identity()) as session:
        found = await asyncio.gather(*(session.status() for _ in range(5)))
    assert [each.code for each in found] == [3] * 5


@needs_engine
@pytest.mark.parametrize("mode", MODES)
def test_an_answer_that_breaks_off_is_asked_for_again(tmp_path: Path, mode: Mode) -> None:
    peer, before = known_to("EC"), children()
    peer.faults = [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"]
    with (
        serving(peer, tmp_path) as address,
        connected(mode, address, trust_in_peer(peer), identity()) as session,
    ):
        assert session.status().code == 3
        assert len(children() - before) == 1
    assert len(peer.requests) == 4  # the quote, and three times the status
    assert children() == before


@needs_engine
@pytest.mark.parametrize("mode", MODES)
def test_an_answer_that_never_begins_does_not_outlast_the_call(tmp_path: Path, mode: Mode) -> None:
    peer = known_to("EC")
    with serving(peer, tmp_path) as address:
        verified = trusted(peer, address)
        peer.faults = [Flood(b"HTTP/1.1 100 Continue\r\n\r\n" * 100)]
        with (
            session_with(mode, verified, identity(), timeout=3, retries=NO_RETRIES) as session,
            pytest.raises(UnreachableError, match="in time"),
        ):
            session.status()


@needs_engine
@pytest.mark.parametrize("mode", MODES)
def test_a_program_that_dies_between_two_calls_is_replaced(tmp_path: Path, mode: Mode) -> None:
    peer, before = known_to("EC"), children()
    with (
        serving(peer, tmp_path) as address,
        connected(mode, address, trust_in_peer(peer), identity()) as session,
    ):
        session.status()
        (program,) = children() - before
        os.kill(program, signal.SIGKILL)
        assert session.status().code == 3
        assert children() - before not in (set(), {program})
    assert children() == before


def test_nothing_goes_over_it_without_tls(tmp_path: Path) -> None:
    root, before = certify("Root").der, children()
    who = TokenIdentity(
        module=tmp_path,
        token=TOKEN,
        pin=PIN,
        certificate=b"",
        label="l",
    )
    transport = TokenTransport(TokenTls(who, root), pinned_context(root))
    with httpx.Client(transport=transport) as client, pytest.raises(httpx.LocalProtocolError):
        client.get("http://127.0.0.1:1/")
    assert children() == before


@needs_engine
def test_a_name_is_looked_up_until_an_address_answers(somewhere: TrustedCoordinator) -> None:
    named = msgspec.structs.replace(somewhere.address, host="localhost")
    moved = msgspec.structs.replace(somewhere, address=named)
    with Coordinator(moved, identity()) as session:
        assert session.status().code == 3


@needs_engine
def test_a_name_that_nobody_has_is_unreachable(somewhere: TrustedCoordinator) -> None:
    moved = msgspec.structs.replace(somewhere, address=Address("nobody.invalid", 4433))
    with (
        Coordinator(moved, identity(), retries=NO_RETRIES) as session,
        pytest.raises(UnreachableError, match=r"nobody\.invalid:4433"),
    ):
        session.status()


@needs_engine
@pytest.mark.parametrize("mode", MODES)
def test_nobody_there_and_nobody_who_answers_are_unreachable(
    somewhere: TrustedCoordinator, mode: Mode
) -> None:
    before = children()
    soon, options = Timeouts(connect=0.3), {"retries": NO_RETRIES}
    with socket.create_server(("127.0.0.1", 0)) as silent:
        where = Address("127.0.0.1", silent.getsockname()[1])
        moved = msgspec.structs.replace(somewhere, address=where)
        with (
            session_with(mode, moved, identity(), timeout=soon, **options) as session,
            pytest.raises(UnreachableError, match="timed out"),
        ):
            session.status()
    with (
        session_with(mode, moved, identity(), **options) as session,
        pytest.raises(UnreachableError, match=str(where)) as caught,
    ):
        session.status()
    assert not caught.value.connected
    assert children() == before

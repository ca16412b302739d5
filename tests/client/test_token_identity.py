"""A user's key stays on a token, and the pin of the peer's certificate holds as without one."""

import asyncio
import base64
import json
import os
import shutil
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st
from keyhouse_tests_peer import Certified, Peer, certify, listening, serving, success
from keyhouse_tests_sdk import MODES, Mode, connected, session_with, trust_in_peer
from keyhouse_tests_token import LIBRARY, PIN, TOKEN, needs_engine, on_token, put_key

from keyhouse.client import (
    NO_RETRIES,
    Address,
    AsyncCoordinator,
    ClientSetup,
    Coordinator,
    SecretUpload,
    Timeouts,
    TokenIdentity,
    TrustedCoordinator,
    TrustFailed,
    Unreachable,
    read_token,
    verify_coordinator,
)
from keyhouse.client.openssl_program import TokenTls, failure, start
from keyhouse.wire.secret import Secret

STATUS = success({"code": 3, "message": "running"})
KINDS = ("EC", "P-384", "RSA")
PUBLIC = ("cmdline", "environ")


def identity(kind: str = "EC", **changes: Any) -> TokenIdentity:
    plain = TokenIdentity(
        module=LIBRARY, token=TOKEN, pin=PIN, certificate=on_token(kind).pem, label=kind
    )
    return msgspec.structs.replace(plain, **changes)


def known_to(*kinds: str) -> Peer:
    """Return a peer that asks for the certificates of these users."""
    peer = Peer.new()
    peer.users = b"".join(on_token(kind).pem for kind in kinds)
    peer.replies["GET", "/api/v2/status"] = STATUS
    return peer


def trusted(peer: Peer, address: Address) -> TrustedCoordinator:
    trust = trust_in_peer(peer)
    return verify_coordinator(
        address,
        expected=trust.expected,
        root_ca_der=trust.root_ca_der,
        collateral=trust.collateral,
    )


def children() -> set[int]:
    """Return the processes that this one has started, ended ones that nobody waited for too."""
    found = Path("/proc/self/task").glob("*/children")
    return {int(number) for listed in found for number in listed.read_text().split()}


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
def test_the_pin_is_neither_among_arguments_nor_in_the_environment(tmp_path: Path) -> None:
    peer, before = known_to("EC"), children()
    with (
        serving(peer, tmp_path) as address,
        Coordinator.connect(address, trust_in_peer(peer), identity()) as session,
    ):
        session.status()
        (program,) = children() - before
        shown = [(Path("/proc") / str(program) / name).read_bytes() for name in PUBLIC]
    assert b"s_client" in shown[0]
    assert all(PIN.reveal() not in text for text in shown)


@needs_engine
def test_labels_may_hold_anything(tmp_path: Path) -> None:
    label = "of alice; 100 %/?&ä"
    user = certify("alice")
    put_key(user.key, label, "00ff3b")
    peer = Peer.new()
    peer.users = user.pem
    peer.replies["GET", "/api/v2/status"] = STATUS
    with serving(peer, tmp_path) as address:
        names: list[dict[str, Any]] = [{"label": label}, {"label": "", "key_id": b"\0\xff;"}]
        for by in names:
            who = identity(certificate=user.pem, **by)
            with Coordinator.connect(address, trust_in_peer(peer), who) as session:
                session.status()
    assert peer.client_certificates.count(user.der) == 2


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
            pytest.raises(TrustFailed, match="another certificate"),
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
    with pytest.raises(TrustFailed, match="not valid at this time"):
        start(TokenTls(identity(), root.public_bytes(Encoding.DER)), Address("127.0.0.1", 1))
    assert children() == before


@pytest.fixture(scope="module")
def somewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TrustedCoordinator]:
    """A coordinator that runs."""
    peer = known_to("EC")
    with serving(peer, tmp_path_factory.mktemp("peer")) as address:
        yield trusted(peer, address)


@needs_engine
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"pin": Secret(b"90817263")}, "does not take the PIN"),
        ({"token": "flat"}, "no token with this label"),
        ({"label": "DSA"}, "no such private key"),
        ({"key_id": b"RSA"}, "no such private key"),
        ({"label": "RSA"}, "not for the key"),
        ({"module": Path("/nonexistent.so")}, "cannot be loaded"),
        ({"certificate": b"no PEM"}, "cannot be used"),
    ],
    ids=["PIN", "token", "key", "id of another", "other key", "module", "certificate"],
)
def test_what_cannot_be_used_is_told_without_the_pin(
    somewhere: TrustedCoordinator, changes: dict[str, Any], problem: str, mode: Mode
) -> None:
    on_token("RSA")
    who, before = identity(**changes), children()
    with (
        session_with(mode, somewhere, who) as session,
        pytest.raises(ClientSetup, match=problem) as caught,
    ):
        session.status()
    assert who.pin.reveal().decode() not in f"{caught.value!r} {caught.value} {who!r}"
    assert children() == before


@needs_engine
async def test_a_wrong_pin_is_tried_once_in_a_session(
    somewhere: TrustedCoordinator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = tmp_path / "tries"
    program = tmp_path / "openssl"
    program.write_text(f'#!/bin/sh\necho once >> {tries}\nexec {shutil.which("openssl")} "$@"\n')
    program.chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    wrong = identity(pin=Secret(b"90817263"))
    async with AsyncCoordinator(somewhere, wrong) as session:
        calls = [session.status() for _ in range(3)]
        ended = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(each, ClientSetup) for each in ended)
    assert tries.read_text().splitlines() == ["once"]


@needs_engine
async def test_many_calls_run_at_the_same_time(somewhere: TrustedCoordinator) -> None:
    async with AsyncCoordinator(somewhere, identity()) as session:
        found = await asyncio.gather(*(session.status() for _ in range(5)))
    assert [each.code for each in found] == [3] * 5


@needs_engine
@pytest.mark.parametrize(
    ("variable", "problem"),
    [("OPENSSL_ENGINES", "no engine for tokens"), ("PATH", "need the program openssl")],
)
def test_what_is_not_installed_is_named(
    somewhere: TrustedCoordinator, monkeypatch: pytest.MonkeyPatch, variable: str, problem: str
) -> None:
    monkeypatch.setenv(variable, "/nonexistent")
    with Coordinator(somewhere, identity()) as session, pytest.raises(ClientSetup, match=problem):
        session.status()


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
        pytest.raises(Unreachable, match="no TLS connection"),
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
            pytest.raises(Unreachable, match="does not answer"),
        ):
            session.status()
    with (
        session_with(mode, moved, identity(), **options) as session,
        pytest.raises(Unreachable, match="no TLS connection") as caught,
    ):
        session.status()
    assert not caught.value.connected
    assert children() == before


@needs_engine
def test_a_user_is_read_from_the_token() -> None:
    user = on_token("EC")
    place: dict[str, Any] = {"token": TOKEN, "pin": PIN}
    by_label = read_token(LIBRARY, **place, label="EC")
    assert by_label == identity()
    by_id = read_token(LIBRARY, **place, label="any", certificate_id=b"EC")
    assert (by_id.certificate, by_id.label) == (user.pem, "any")


@needs_engine
@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"pin": Secret(b"90817263")}, "cannot be read"),
        ({"pin": Secret(b"\xff\xfe\xfd\xfc")}, "cannot be read"),
        ({"token": "flat"}, "cannot be read"),
        ({"certificate_label": "DSA"}, "0 such certificates"),
    ],
    ids=["PIN", "PIN of other bytes", "token", "certificate"],
)
def test_a_certificate_that_cannot_be_read_is_told(changes: dict[str, Any], problem: str) -> None:
    on_token("EC")
    arguments: dict[str, Any] = {"token": TOKEN, "pin": PIN, "label": "EC"} | changes
    with pytest.raises(ClientSetup, match=problem):
        read_token(LIBRARY, **arguments)


@pytest.mark.parametrize(
    "changes",
    [
        {"token": ""},
        {"label": ""},
        {"pin": Secret(b"")},
        {"pin": Secret(b"1234\n5678")},
        {"pin": Secret(b"1234\0")},
        {"module": Path("libsofthsm2.so")},
    ],
    ids=["no token", "no key", "no PIN", "two lines", "NUL", "relative library"],
)
def test_what_names_no_key_is_refused_at_once(changes: dict[str, Any]) -> None:
    whole: dict[str, Any] = {
        "module": Path("/token.so"),
        "token": "t",
        "pin": Secret(b"1234"),
        "certificate": b"",
        "label": "l",
    }
    with pytest.raises(ClientSetup):
        TokenIdentity(**whole | changes)


def test_the_uri_escapes_what_would_end_a_name() -> None:
    who = TokenIdentity(
        module=Path("/token.so"),
        token="a;b?pin-value=1",  # noqa: S106 a label
        pin=Secret(b"1234"),
        certificate=b"",
        label="x/y",
        key_id=b"\x00;",
    )
    assert who.uri("/f") == (
        "pkcs11:token=a%3Bb%3Fpin-value%3D1;object=x%2Fy;id=%00%3b;type=private?pin-source=file:/f"
    )


@given(st.binary(max_size=200))
def test_whatever_the_program_says_is_one_of_our_errors_or_none(said: bytes) -> None:
    assert isinstance(failure(said), ClientSetup | TrustFailed | None)

"""What a user on a token is named by, and what is said of one that cannot be used."""

import asyncio
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from support.peers.peer import certify, serving
from support.peers.sdk import MODES, Mode, session_with, trust_in_peer
from support.process.softhsm import (
    LIBRARY,
    PIN,
    TOKEN,
    children,
    identity,
    known_to,
    needs_engine,
    on_token,
    put_key,
)

from keyhouse.base.secret import Secret
from keyhouse.client import (
    AsyncCoordinator,
    ClientSetupError,
    Coordinator,
    TokenIdentity,
    TrustedCoordinator,
    TrustError,
    read_token,
)
from keyhouse.client.tokens.openssl_program import failure

PUBLIC = ("cmdline", "environ")


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
    peer = known_to("EC")
    peer.users = user.pem
    with serving(peer, tmp_path) as address:
        names: list[dict[str, Any]] = [{"label": label}, {"label": "", "key_id": b"\0\xff;"}]
        for by in names:
            who = identity(certificate=user.pem, **by)
            with Coordinator.connect(address, trust_in_peer(peer), who) as session:
                session.status()
    assert peer.client_certificates.count(user.der) == 2


@needs_engine
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"pin": Secret(b"90817263")}, "rejects the PIN"),
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
        pytest.raises(ClientSetupError, match=problem) as caught,
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
    assert all(isinstance(each, ClientSetupError) for each in ended)
    assert tries.read_text().splitlines() == ["once"]


@needs_engine
@pytest.mark.parametrize(
    ("variable", "problem"),
    [("OPENSSL_ENGINES", "libengine-pkcs11-openssl"), ("PATH", "apt install openssl")],
)
def test_what_is_not_installed_is_named(
    somewhere: TrustedCoordinator, monkeypatch: pytest.MonkeyPatch, variable: str, problem: str
) -> None:
    monkeypatch.setenv(variable, "/nonexistent")
    with (
        Coordinator(somewhere, identity()) as session,
        pytest.raises(ClientSetupError, match=problem),
    ):
        session.status()


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
        ({"pin": Secret(b"90817263")}, "PinIncorrect"),
        ({"pin": Secret(b"\xff\xfe\xfd\xfc")}, "UnicodeDecodeError"),
        ({"token": "flat"}, "NoSuchToken"),
        ({"certificate_label": "DSA"}, "0 certificates"),
    ],
    ids=["PIN", "PIN of other bytes", "token", "certificate"],
)
def test_a_certificate_that_cannot_be_read_is_told(changes: dict[str, Any], problem: str) -> None:
    on_token("EC")
    arguments: dict[str, Any] = {"token": TOKEN, "pin": PIN, "label": "EC"} | changes
    with pytest.raises(ClientSetupError, match=problem):
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
        {"module": Path("/token\0.so")},
        {"token": "\udcff"},
        {"label": "\udcff"},
    ],
    ids=[
        *("no token", "no key", "no PIN", "two lines", "NUL", "relative library"),
        *("library with NUL", "token of no text", "key of no text"),
    ],
)
def test_what_names_no_key_is_refused_at_once(changes: dict[str, Any]) -> None:
    whole: dict[str, Any] = {
        "module": Path("/token.so"),
        "token": "t",
        "pin": Secret(b"1234"),
        "certificate": b"",
        "label": "l",
    }
    with pytest.raises(ClientSetupError):
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
    assert isinstance(failure(said), ClientSetupError | TrustError | None)

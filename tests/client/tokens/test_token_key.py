"""A recovery key on a token signs there; what the token cannot do is said, not worked around."""

import re
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from support.peers.peer import certify
from support.process.softhsm import LIBRARY, PIN, TOKEN, needs_token, put_key
from support.samples.fixed_keys import unused_rsa_key

from keyhouse.base.secret import Secret
from keyhouse.client import ClientSetupError, TokenKey, open_token_key
from keyhouse.client.http.pinned_tls import pinned_context

SHARE = Secret(b"a share of thirty-two bytes long")
pytestmark = needs_token


@pytest.fixture(scope="session")  # a second key with the same identifier is refused
def held() -> rsa.RSAPrivateKey:
    """Put one RSA key, "alice", on the token, and return it."""
    key = unused_rsa_key()
    put_key(key, "alice", "a1")
    return key


def opened(label: str, key_id: bytes = b"") -> AbstractContextManager[TokenKey]:
    """Open the key on the token."""
    return open_token_key(LIBRARY, token=TOKEN, pin=PIN, label=label, key_id=key_id)


@pytest.mark.parametrize(("label", "key_id"), [("alice", b""), ("", b"\xa1")], ids=["label", "id"])
def test_the_token_signs_what_the_listed_key_verifies(
    held: rsa.RSAPrivateKey, label: str, key_id: bytes
) -> None:
    with opened(label, key_id) as key:
        signature = key.sign(SHARE)
        public = key.public_key
    held.public_key().verify(signature, SHARE.reveal(), padding.PKCS1v15(), hashes.SHA256())
    assert public == held.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def test_a_token_without_sha256_in_oaep_is_a_refusal_and_nothing_weaker(
    held: rsa.RSAPrivateKey,
) -> None:
    oaep = padding.OAEP(padding.MGF1(hashes.SHA256()), hashes.SHA256(), None)
    encrypted = held.public_key().encrypt(SHARE.reveal(), oaep)
    with opened("alice") as key, pytest.raises(ClientSetupError, match="ArgumentsBad"):
        key.decrypt(encrypted)


def test_a_wrong_pin_leaves_no_error_for_the_tls_that_follows_on_the_thread() -> None:
    wrong = open_token_key(LIBRARY, token=TOKEN, pin=Secret(b"87654321"), label="alice")
    with pytest.raises(ClientSetupError, match="PinIncorrect"), wrong:
        pass
    assert pinned_context(certify("root").der).cert_store_stats()["x509"] == 1


@pytest.mark.usefixtures("held")
@pytest.mark.parametrize(
    ("token", "pin", "label", "problem"),
    [
        ("nobody", PIN.reveal(), "alice", "NoSuchToken"),
        (TOKEN, b"87654321", "alice", "PinIncorrect"),
        (TOKEN, b"\xff\xff\xff\xff", "alice", "UnicodeDecodeError"),
        (TOKEN, PIN.reveal(), "bob", "NoSuchKey"),
    ],
    ids=["no such token", "wrong PIN", "PIN of other bytes", "no such key"],
)
def test_what_cannot_be_opened_is_named_without_the_pin(
    token: str, pin: bytes, label: str, problem: str
) -> None:
    with (
        pytest.raises(ClientSetupError, match=problem) as caught,
        open_token_key(LIBRARY, token=token, pin=Secret(pin), label=label),
    ):
        pass
    assert pin.decode("latin-1") not in str(caught.value)


def test_an_invalid_library_is_a_refusal() -> None:
    with (
        pytest.raises(ClientSetupError, match=re.escape(__file__)),
        open_token_key(Path(__file__), token=TOKEN, pin=PIN, label="alice"),
    ):
        pass

"""A recovery key on a token signs there; what the token cannot do is said, not worked around."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from keyhouse.client import ClientSetup, TokenKey, open_token_key
from keyhouse.wire.secret import Secret

SHARE = Secret(b"a share of thirty-two bytes long")
HOLDERS = "holders"
PIN = Secret(b"12345678")
LIBRARY = next(Path("/usr/lib").glob("**/libsofthsm2.so"), Path("no SoftHSM"))

pytestmark = pytest.mark.skipif(
    "CI" not in os.environ and (shutil.which("softhsm2-util") is None or not LIBRARY.exists()),
    reason="SoftHSM (Debian: softhsm2) is not installed",
)


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> Iterator[rsa.RSAPrivateKey]:
    """A token "holders" with one RSA key "alice"; gives the key that was put there."""
    folder = tmp_path_factory.mktemp("softhsm")
    (folder / "tokens").mkdir()
    configuration = folder / "softhsm2.conf"
    configuration.write_text(f"directories.tokendir = {folder}/tokens\nlog.level = ERROR\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SOFTHSM2_CONF", str(configuration))
        pin = PIN.reveal().decode()
        util("--init-token", "--free", "--label", "holders", "--so-pin", pin, "--pin", pin)
        key = rsa.generate_private_key(65537, 2048)
        pem = folder / "key.pem"
        pem.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        imported = ("--label", "alice", "--id", "a1")
        util("--import", str(pem), "--token", "holders", "--pin", pin, *imported)
        yield key


def util(*arguments: str) -> None:
    """Run the tool that comes with SoftHSM."""
    subprocess.run(["softhsm2-util", *arguments], check=True, capture_output=True, env=os.environ)


def opened(label: str, key_id: bytes = b"") -> AbstractContextManager[TokenKey]:
    """Open the key on the token."""
    return open_token_key(LIBRARY, token=HOLDERS, pin=PIN, label=label, key_id=key_id)


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
    with opened("alice") as key, pytest.raises(ClientSetup, match="does not decrypt"):
        key.decrypt(encrypted)


@pytest.mark.usefixtures("held")
@pytest.mark.parametrize(
    ("token", "pin", "label", "problem"),
    [
        ("nobody", b"12345678", "alice", "cannot be opened"),
        ("holders", b"87654321", "alice", "cannot be opened"),
        ("holders", b"\xff\xff\xff\xff", "alice", "cannot be opened"),
        ("holders", b"12345678", "bob", "not exactly one"),
    ],
    ids=["no such token", "wrong PIN", "PIN of other bytes", "no such key"],
)
def test_what_cannot_be_opened_is_named_without_the_pin(
    token: str, pin: bytes, label: str, problem: str
) -> None:
    with (
        pytest.raises(ClientSetup, match=problem) as caught,
        open_token_key(LIBRARY, token=token, pin=Secret(pin), label=label),
    ):
        pass
    assert pin.decode("latin-1") not in str(caught.value)


def test_a_library_that_is_none_is_a_refusal() -> None:
    with (
        pytest.raises(ClientSetup, match="cannot be opened"),
        open_token_key(Path(__file__), token=HOLDERS, pin=PIN, label="alice"),
    ):
        pass

"""`keyhouse recover sign` with a holder's key on a token; its PIN is never told."""

import base64
import json
from pathlib import Path

import pytest
from click.testing import Result
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from support.process.command_tree import typed
from support.process.softhsm import LIBRARY, PIN, TOKEN, needs_token, put_key
from support.samples.fixed_keys import unused_rsa_key

SHARE = bytes(range(32))
LABEL, KEY_ID = "holder", "a7"


@pytest.fixture(scope="session")  # a second key with the same identifier is refused
def key() -> rsa.RSAPrivateKey:
    made = unused_rsa_key()
    put_key(made, LABEL, KEY_ID)
    return made


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "share").write_bytes(SHARE)
    return tmp_path


def config(pin: str) -> None:
    Path("token.json").write_text(
        json.dumps({"Path": str(LIBRARY), "TokenLabel": TOKEN, "Pin": pin})
    )


def sign(*words: str) -> Result:
    return typed("recover", "sign", "share", *words)


@needs_token
@pytest.mark.parametrize(
    "named", [("--pkcs11-key-label", LABEL), ("--pkcs11-key-id", KEY_ID)], ids=["label", "id"]
)
def test_token_signs(key: rsa.RSAPrivateKey, named: tuple[str, str]) -> None:
    config(PIN.reveal().decode())

    ended = sign("--pkcs11-config", "token.json", *named)

    assert ended.exit_code == 0, ended.stderr
    signature = base64.b64decode(ended.stdout)
    key.public_key().verify(signature, SHARE, padding.PKCS1v15(), hashes.SHA256())


@needs_token
def test_token_is_named_once_in_a_context(key: rsa.RSAPrivateKey) -> None:
    config(PIN.reveal().decode())
    named = ("--pkcs11-config", "token.json", "--pkcs11-key-label", LABEL)
    assert typed("context", "add", "mine", *named).exit_code == 0
    assert PIN.reveal() not in Path("keyhouse/contexts.toml").read_bytes()

    signature = base64.b64decode(sign().stdout)

    key.public_key().verify(signature, SHARE, padding.PKCS1v15(), hashes.SHA256())


@needs_token
@pytest.mark.usefixtures("key")
def test_wrong_pin_is_refused_and_not_told() -> None:
    config("99887766")

    ended = sign("--pkcs11-config", "token.json", "--pkcs11-key-label", LABEL)

    assert ended.exit_code == 1
    assert "PIN" in ended.stderr
    assert "99887766" not in ended.output


@pytest.mark.parametrize(
    ("words", "code", "problem"),
    [
        ((), 2, "needs the holder's key"),
        (("--pkcs11-key-label", "a"), 2, "describes the token"),
        (("--pkcs11-config", "t.json", "--key", "k"), 2, "two keys"),
        (("--pkcs11-config", "t.json"), 2, "no key on the token"),
        (("--pkcs11-config", "t.json", "--pkcs11-key-id", "xyz"), 2, "not hexadecimal"),
        (("--pkcs11-config", "t.json", "--pkcs11-key-id", " "), 2, "not hexadecimal"),
        (("--pkcs11-config", "empty.json", "--pkcs11-key-label", "a"), 1, "must name a token"),
        (
            ("--pkcs11-config", "pinless.json", "--pkcs11-key-label", "a"),
            1,
            "the PIN of the token is missing",
        ),
    ],
)
def test_token_that_is_not_clear_is_refused(
    words: tuple[str, ...], code: int, problem: str
) -> None:
    Path("t.json").write_text('{"path": "/x", "tokenlabel": "y", "PIN": "1234"}')
    Path("pinless.json").write_text('{"Path": "/x", "TokenLabel": "y"}')
    Path("empty.json").write_text("{}")

    ended = sign(*words)

    assert (ended.exit_code, problem in ended.stderr) == (code, True), ended.stderr

"""`keyhouse recover sign` and `encrypt`, which need no network; and what their files may hold."""

import base64
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from support.process.command import Ended, run
from support.samples.fixed_keys import RSA_4096
from support.samples.recovery import OAEP, holder

ANN, BEN = holder("rk0"), holder("rk1")
SHARE = bytes(range(32))
EPHEMERAL = RSA_4096


def _pem(key: rsa.RSAPrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    secrets = {
        name: base64.b64encode(each.key.public_key().encrypt(SHARE, OAEP)).decode()
        for name, each in {"ann": ANN, "ben": BEN}.items()
    }
    (tmp_path / "recovery.json").write_text(json.dumps({"recoverySecrets": secrets}))
    (tmp_path / "ann.key").write_bytes(ANN.private_pem)
    (tmp_path / "ben.key").write_bytes(BEN.private_pem)
    (tmp_path / "coordinator.pub").write_bytes(_pem(EPHEMERAL))
    return tmp_path


def _sign(folder: Path, file: str, *words: str) -> Ended:
    return run("recover", "sign", file, "--key", "ann.key", *words, folder=folder)


FORMS: dict[str, Callable[[bytes, bytes], bytes]] = {
    "encrypted": lambda _share, ciphertext: ciphertext,
    "encrypted, base64": lambda _share, ciphertext: base64.b64encode(ciphertext) + b"\n",
    "encrypted, base64 in lines": lambda _share, ciphertext: base64.encodebytes(ciphertext),
    "decrypted": lambda share, _ciphertext: share,
    "decrypted, base64": lambda share, _ciphertext: base64.b64encode(share),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_one_secret_in_any_form_is_signed(
    folder: Path, form: Callable[[bytes, bytes], bytes]
) -> None:
    ciphertext = ANN.key.public_key().encrypt(SHARE, OAEP)
    (folder / "secret").write_bytes(form(SHARE, ciphertext))
    ended = _sign(folder, "secret")
    assert ended.code == 0, ended.err
    assert base64.b64decode(ended.out) == ANN.sign(SHARE)


def test_secret_of_a_json_file_is_chosen_by_name(folder: Path) -> None:
    ended = _sign(folder, "recovery.json", "--name", "ann", "-o", "signature")
    assert (ended.code, ended.out) == (0, ""), ended.err
    assert base64.b64decode((folder / "signature").read_bytes()) == ANN.sign(SHARE)
    assert (folder / "signature").stat().st_mode & 0o777 == 0o600


def test_secret_is_encrypted_to_the_coordinator(folder: Path) -> None:
    words = ("recovery.json", "--name", "ben", "--key", "ben.key")
    to = ("--coordinator-pub-key", "coordinator.pub")
    ended = run("recover", "encrypt", *words, *to, folder=folder)
    assert ended.code == 0, ended.err
    assert EPHEMERAL.decrypt(base64.b64decode(ended.out), OAEP) == SHARE
    assert SHARE.hex() not in ended.out + ended.err


WRONG = {
    "several secrets and no name": (("recovery.json",), 'pass --name with one of: "ann", "ben"'),
    "no such name": (("recovery.json", "--name", "cleo"), 'no recovery secret "cleo"'),
    "a secret of another": (("recovery.json", "--name", "ben"), "not encrypted to this"),
    "no such file": (("gone.json",), "cannot read gone.json"),
    "an output that is there": (
        ("recovery.json", "--name", "ann", "-o", "ben.key"),
        "do not overwrite files",
    ),
}


@pytest.mark.parametrize(("words", "said"), WRONG.values(), ids=WRONG)
def test_wrong_use_is_refused_and_nothing_printed(
    folder: Path, words: tuple[str, ...], said: str
) -> None:
    ended = _sign(folder, *words)
    assert (ended.code, ended.out) == (1, "")
    assert said in ended.err
    assert (folder / "ben.key").read_bytes() == BEN.private_pem


@pytest.mark.parametrize(
    ("key", "said", "code"),
    [
        (b"no key", "is not a PEM public key", 1),
        (_pem(ANN.key), "not an RSA key of 4096 bits", 4),
    ],
    ids=["no key", "weak key"],
)
def test_nothing_is_encrypted_to_a_wrong_key(
    folder: Path, key: bytes, said: str, code: int
) -> None:
    (folder / "coordinator.pub").write_bytes(key)
    (folder / "secret").write_bytes(SHARE)
    words = ("secret", "--coordinator-pub-key", "coordinator.pub")
    ended = run("recover", "encrypt", *words, folder=folder)
    assert (ended.code, ended.out) == (code, "")
    assert said in ended.err

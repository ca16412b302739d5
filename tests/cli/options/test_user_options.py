"""Who calls is named once and completely, or the command says what is missing."""

import json
import os
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from msgspec.structs import replace
from support.process.start import KEYHOUSE
from support.samples.deployment import user

from keyhouse.cli.options.target import Target
from keyhouse.cli.options.user import UserOption
from keyhouse.cli.parser.usage import WrongUsageError
from keyhouse.client import ClientSetupError, PemIdentity, TokenIdentity
from keyhouse.client.tokens.config import TokenFile, TokenFileUnusableError

CERTIFICATE = b"-----BEGIN CERTIFICATE-----\n"
TARGET = Target(host="127.0.0.1:4433")


def token_file(folder: Path, **changes: str) -> Path:
    file = folder / "token.json"
    file.write_text(json.dumps({"Path": "/t.so", "TokenLabel": "house", "Pin": "1234"} | changes))
    return file


def test_a_key_on_a_token_goes_with_a_certificate_in_a_file(tmp_path: Path) -> None:
    certificate = tmp_path / "alice.pem"
    certificate.write_bytes(CERTIFICATE)
    user = UserOption(cert=certificate, pkcs11_config=token_file(tmp_path), pkcs11_key_id="00a1")
    found = user.identity(TARGET)
    assert isinstance(found, TokenIdentity)
    assert (found.module, found.token, found.certificate) == (Path("/t.so"), "house", CERTIFICATE)
    assert (found.label, found.key_id, found.pin.reveal()) == ("", b"\x00\xa1", b"1234")
    assert "1234" not in repr(found)


@pytest.mark.parametrize(
    ("user", "problem"),
    [
        (UserOption(pkcs11_key_label="a"), "describes the token"),
        (UserOption(pkcs11_cert_id="a1"), "describes the token"),
        (UserOption(pkcs11_config=Path("t")), "no key on the token"),
        (UserOption(pkcs11_config=Path("t"), pkcs11_cert_label="a"), "no key on the token"),
        (UserOption(pkcs11_config=Path("t"), pkcs11_key_label="a", key=Path("k")), "two keys"),
        (UserOption(pkcs11_config=Path("t"), pkcs11_key_label="a", pkcs12=Path("k")), "two keys"),
        (UserOption(cert=Path("c"), key=Path("k"), pkcs12_password=Path("p")), "has no effect"),
        (UserOption(pkcs12_password=Path("p")), "has no effect"),
        (
            UserOption(
                pkcs11_config=Path("t"),
                pkcs11_key_label="a",
                cert=Path("c"),
                pkcs11_cert_label="a",
            ),
            "both name a certificate",
        ),
    ],
    ids=[
        "no token",
        "no token either",
        "no key",
        "no key either",
        "key",
        "PKCS #12",
        "password of PEM files",
        "password alone",
        "cert",
    ],
)
def test_half_a_user_and_two_are_wrong_usage(user: UserOption, problem: str) -> None:
    with pytest.raises(WrongUsageError, match=problem):
        user.check([TARGET])


@pytest.mark.parametrize("option", ["pkcs11_key_id", "pkcs11_cert_id"])
def test_an_id_that_is_not_in_hex_names_its_option(tmp_path: Path, option: str) -> None:
    given: dict[str, Any] = {"pkcs11_key_id": "a1", option: "0xa1"}
    user = UserOption(pkcs11_config=token_file(tmp_path), **given)
    with pytest.raises(WrongUsageError, match="--" + option.replace("_", "-")):
        user.identity(TARGET)


@pytest.mark.parametrize("changes", [{"Path": ""}, {"TokenLabel": ""}, {"Pin": ""}])
def test_a_token_file_that_lacks_something_is_refused(
    tmp_path: Path, changes: dict[str, str]
) -> None:
    user = UserOption(pkcs11_config=token_file(tmp_path, **changes), pkcs11_key_id="a1")
    with pytest.raises(TokenFileUnusableError):
        user.identity(TARGET)


def test_a_token_file_shows_no_pin() -> None:
    assert "1234" not in repr(TokenFile("/t.so", "house", "1234"))


def encrypted(folder: Path) -> UserOption:
    """Return a user whose key is encrypted under "open sesame"."""
    key = load_pem_private_key(user("ann").key_pem, None)
    form = (Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"open sesame"))
    (folder / "ann.key").write_bytes(key.private_bytes(*form))
    (folder / "ann.crt").write_bytes(user("ann").pem)
    return UserOption(cert=folder / "ann.crt", key=folder / "ann.key")


def test_encrypted_key_is_decrypted_by_the_first_line_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "passphrase").write_text("open sesame\nand no more\n")
    given = replace(encrypted(tmp_path), key_password=tmp_path / "passphrase")

    found = given.identity(TARGET)

    assert isinstance(found, PemIdentity)
    load_pem_private_key(found.key.reveal(), None)
    assert found.certificate == user("ann").pem


def test_wrong_passphrase_is_refused(tmp_path: Path) -> None:
    (tmp_path / "passphrase").write_text("close")
    given = replace(encrypted(tmp_path), key_password=tmp_path / "passphrase")

    with pytest.raises(ClientSetupError, match=r"ann\.key: .*passphrase"):
        given.identity(TARGET)


def test_a_pkcs12_file_without_a_password_names_the_option(tmp_path: Path) -> None:
    (tmp_path / "me.p12").write_bytes(b"encrypted")

    with pytest.raises(ClientSetupError, match=r"me\.p12: .*--pkcs12-password-file") as refused:
        UserOption(pkcs12=tmp_path / "me.p12").identity(TARGET)

    assert "--pkcs12-password-file" in refused.value.hint


def test_passphrase_that_nothing_is_encrypted_with_is_refused(tmp_path: Path) -> None:
    given = replace(encrypted(tmp_path), key_password=tmp_path / "passphrase")
    (tmp_path / "ann.key").write_bytes(user("ann").key_pem)

    with pytest.raises(WrongUsageError, match=r"--key-password-file .*ann.key"):
        given.identity(TARGET)


def test_passphrase_is_asked_for_on_a_terminal(tmp_path: Path) -> None:
    """By the command itself, in a terminal of its own; it is not echoed."""
    encrypted(tmp_path)
    words = ["secret", "get", "a", "--show", "127.0.0.1:1", "--attestation", "none.json"]
    words += ["--cert", "ann.crt", "--key", "ann.key"]
    ours, theirs = os.openpty()
    with os.fdopen(ours, "r+b", buffering=0) as terminal:
        process = subprocess.Popen(
            [KEYHOUSE, *words],
            cwd=tmp_path,
            env={"HOME": str(tmp_path)},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        said = b""
        while b"passphrase of ann.key: " not in said:
            said += terminal.read(4096)
        terminal.write(b"open sesame\n")
        with suppress(OSError):  # the end of a terminal
            while piece := terminal.read(4096):
                said += piece
        assert process.wait(60) == 1

    assert b"error: cannot read none.json: no such file" in said
    assert b"sesame" not in said

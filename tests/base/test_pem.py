"""Errors about files without a PEM certificate or without a private key."""

import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from keyhouse.client.pem_faults import certificate_fault, is_encrypted, key_fault

OPENSSL = (
    "genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out key",
    "req -new -x509 -key key -subj /CN=ann -days 2 -out certificate",
    "req -new -key key -subj /CN=ann -out request",
    "pkey -in key -pubout -out public",
    "pkey -in key -outform DER -out key.der",
    "x509 -in certificate -outform DER -out certificate.der",
    "pkcs12 -export -in certificate -inkey key -passout pass:x -out both.p12",
    "pkcs8 -topk8 -in key -passout pass:x -out encrypted",
    "ec -in key -aes256 -passout pass:x -out older",
)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Return the files of openssl and some invalid files, by name."""
    folder = tmp_path_factory.mktemp("openssl")
    for words in OPENSSL:
        subprocess.run(["openssl", *words.split()], cwd=folder, check=True, capture_output=True)
    made = {path.name: path.read_bytes() for path in Path(folder).iterdir()}
    return made | {
        "nothing": b" \n",
        "text": b"user: ann\n",
        "damaged": made["certificate"][:100],
        "damaged key": made["key"][:60],
        "ssh": b"-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n",
        "parameters": b"-----BEGIN EC PARAMETERS-----\nAA==\n-----END EC PARAMETERS-----\n",
    }


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("key", "holds a private key, not a certificate"),
        ("encrypted", "holds a private key, not a certificate"),
        ("request", "holds a certificate signing request, not a certificate"),
        ("public", "holds PUBLIC KEY, not a certificate"),
        ("certificate.der", "is DER, not PEM"),
        ("both.p12", "is a PKCS #12 file, not PEM"),
        ("damaged", "holds a damaged PEM certificate"),
        ("nothing", "is empty"),
        ("text", "does not hold a PEM certificate"),
    ],
)
def test_file_without_a_certificate_is_told_by_what_it_holds(
    files: dict[str, bytes], name: str, problem: str
) -> None:
    fault = certificate_fault(files[name])

    assert fault.problem == problem
    assert fault.hint


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("certificate", "holds a certificate, not a private key"),
        ("public", "holds a public key, not a private key"),
        ("request", "holds CERTIFICATE REQUEST, not a private key"),
        ("parameters", "holds EC PARAMETERS, not a private key"),
        ("key.der", "is DER, not PEM"),
        ("both.p12", "is a PKCS #12 file, not PEM"),
        ("ssh", "holds an OpenSSH key, not a PEM private key"),
        ("damaged key", "holds a damaged PEM private key"),
        ("nothing", "is empty"),
        ("text", "does not hold a PEM private key"),
    ],
)
def test_file_without_a_private_key_is_told_by_what_it_holds(
    files: dict[str, bytes], name: str, problem: str
) -> None:
    fault = key_fault(files[name])

    assert fault.problem == problem
    assert fault.hint


def test_encrypted_keys_are_known_in_both_forms(files: dict[str, bytes]) -> None:
    for name in ("encrypted", "older"):
        assert is_encrypted(files[name])
        load_pem_private_key(files[name], b"x")
    assert not is_encrypted(files["key"])


def test_faults_show_nothing_of_a_file(files: dict[str, bytes]) -> None:
    for content in files.values():
        for fault in (certificate_fault(content), key_fault(content)):
            shown = f"{fault.problem} {fault.hint}"
            lines = [line.decode("latin-1") for line in content.splitlines()[1:-1]]
            assert not any(line in shown for line in lines if len(line) > 4)

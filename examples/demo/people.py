"""The users and the holders of recovery keys, with fresh keys for each run."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from cryptography.x509.oid import NameOID

__all__ = [
    "HOLDERS",
    "USERS",
    "Partner",
    "make_holder",
    "make_partner",
    "make_user",
    "opened",
    "private_file",
]

USERS: Final = ("alice", "bob", "carol")
HOLDERS: Final = ("rk1", "rk2", "rk3")
_BITS: Final = 2048  # the minimum; the generation of a larger key takes seconds
_DAYS: Final = 30

PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


class Partner(msgspec.Struct, frozen=True):
    """A certificate with its private key, in the role of a partner's certificate."""

    cert: bytes  # DER
    private: bytes  # PKCS #8 DER


def make_user(folder: Path, name: str) -> bytes:
    """Make ``name.crt`` and ``name.key`` (both PEM) in ``folder``; return the certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    pem = _self_signed(key, name).public_bytes(Encoding.PEM)
    (folder / f"{name}.crt").write_bytes(pem)
    private_file(folder / f"{name}.key", _pkcs8(key, Encoding.PEM))
    return pem


def make_holder(folder: Path, name: str) -> tuple[rsa.RSAPrivateKey, bytes]:
    """Make ``name.key`` and ``name.pub`` in ``folder``; return the private key and public PEM."""
    key = rsa.generate_private_key(65537, _BITS)
    pem = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (folder / f"{name}.pub").write_bytes(pem)
    private_file(folder / f"{name}.key", _pkcs8(key, Encoding.PEM))
    return key, pem


def make_partner(name: str) -> Partner:
    """Return a fresh RSA certificate with its key."""
    key = rsa.generate_private_key(65537, _BITS)
    return Partner(
        cert=_self_signed(key, name).public_bytes(Encoding.DER), private=_pkcs8(key, Encoding.DER)
    )


def opened(key: rsa.RSAPrivateKey, recovery_secret: bytes) -> bytes:
    """Return the share in ``recovery_secret``, decrypted by RSA-OAEP with SHA-256."""
    return key.decrypt(recovery_secret, padding.OAEP(padding.MGF1(SHA256()), SHA256(), None))


def private_file(path: Path, content: bytes) -> None:
    """Write a new file with the mode 0600: only this user can read the file."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(content)


def _pkcs8(key: PrivateKey, encoding: Encoding) -> bytes:
    return key.private_bytes(encoding, PrivateFormat.PKCS8, NoEncryption())


def _self_signed(key: PrivateKey, name: str) -> x509.Certificate:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=_DAYS))
        .sign(key, SHA256())
    )

"""Who a user is in TLS: a certificate with its private key, from wherever they are kept.

CPython's ``ssl`` reads keys from files alone. A key that is in memory goes there through a file
without a name, which is memory as well; no key is ever written to a disk.
"""

import ssl
from pathlib import Path
from typing import NoReturn, Protocol

import msgspec
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)

from keyhouse.base.secret import Secret
from keyhouse.client.errors import ClientSetup
from keyhouse.client.unnamed_file import path_of, unnamed_file

__all__ = ["ClientIdentity", "PemIdentity", "UserIdentity", "read_pem", "read_pkcs12"]


class UserIdentity(Protocol):
    """A user, as a TLS context can present one."""

    def present(self, context: ssl.SSLContext) -> None:
        """Let ``context`` present the user's certificate. Raises ``ClientSetup``."""
        ...


class ClientIdentity(msgspec.Struct, frozen=True):
    """A user: files with the PEM certificate and its PEM private key, not encrypted."""

    certificate: Path
    key: Path

    def present(self, context: ssl.SSLContext) -> None:
        """Let ``context`` present the user's certificate. Raises ``ClientSetup``."""
        try:
            context.load_cert_chain(self.certificate, self.key, password=_refuse_password)
        except (OSError, ssl.SSLError, ValueError):
            raise ClientSetup(
                f"the user certificate {self.certificate} with the key {self.key} cannot be used",
                hint="both are PEM files that can be read; the key belongs to the certificate"
                " and is not encrypted",
            ) from None


class PemIdentity(msgspec.Struct, frozen=True):
    """A user in memory: the PEM certificate, and its PEM private key, not encrypted."""

    certificate: bytes
    key: Secret

    def present(self, context: ssl.SSLContext) -> None:
        """Let ``context`` present the user's certificate. Raises ``ClientSetup``."""
        try:
            with (
                unnamed_file(self.certificate) as certificate,
                unnamed_file(self.key.reveal()) as key,
            ):
                context.load_cert_chain(
                    path_of(certificate), path_of(key), password=_refuse_password
                )
        except (OSError, ssl.SSLError, ValueError):
            raise ClientSetup(
                "the user's certificate with its key cannot be used",
                hint="both are PEM; the key belongs to the certificate",
            ) from None


def read_pem(certificate: bytes, key: Secret, password: Secret | None = None) -> PemIdentity:
    """Return the user with this PEM certificate and PEM key, which ``password`` decrypts.

    Raises ``ClientSetup``; no message holds anything of the key.
    """
    if password is None:
        return PemIdentity(certificate, key)
    try:
        plain = load_pem_private_key(key.reveal(), password.reveal())
        pem = plain.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise ClientSetup(
            "the user's key cannot be decrypted",
            hint="is it an encrypted PEM key, and this its password?",
        ) from None
    return PemIdentity(certificate, Secret(pem))


def read_pkcs12(content: Secret, password: Secret | None = None) -> PemIdentity:
    """Return the user in a PKCS #12 file (.p12, .pfx), which ``password`` decrypts.

    Further certificates in the file are left out: nobody looks at them. Raises ``ClientSetup``.
    """
    try:
        key, certificate, _ = pkcs12.load_key_and_certificates(
            content.reveal(), password.reveal() if password is not None else None
        )
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise ClientSetup(
            "the PKCS #12 file cannot be read", hint="is the password right?"
        ) from None
    if key is None or certificate is None:
        raise ClientSetup("the PKCS #12 file holds no certificate with its private key")
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return PemIdentity(certificate.public_bytes(Encoding.PEM), Secret(pem))


def _refuse_password() -> NoReturn:
    """Stand in for OpenSSL's question on the terminal."""
    raise ValueError("the key is encrypted")

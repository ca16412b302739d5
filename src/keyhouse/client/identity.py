"""Users in TLS: a certificate with its private key, from files or newly generated.

CPython's ``ssl`` reads keys only from files. So a key in memory is passed in an unnamed file, which
is in memory as well. No key is ever written to a disk.
"""

import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, NoReturn, Protocol

import msgspec
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)

from keyhouse.base.hex_repr import Readable
from keyhouse.base.printable import os_reason
from keyhouse.base.secret import Secret
from keyhouse.base.user_files import reading_hint
from keyhouse.client.errors import ClientSetupError
from keyhouse.client.pem_faults import certificate_fault, is_encrypted, key_fault

# Chosen: the usual lifetime of certificates that people renew by hand.
_LIFE: Final = timedelta(days=90)
_SLACK: Final = timedelta(minutes=5)  # chosen: clocks of two machines may differ by some minutes


class UserIdentity(Protocol):
    """A user whose certificate a TLS context can present."""

    def present(self, context: ssl.SSLContext) -> None:
        """Let ``context`` present the user's certificate. Raises ``ClientSetupError``."""
        ...


class ClientIdentity(msgspec.Struct, frozen=True):
    """A user in files: the PEM certificate, and the PEM private key without encryption."""

    certificate: Path
    key: Path

    def read(self) -> "PemIdentity":
        """Return the user from the current content of the files. Raises ``ClientSetupError``."""
        key = Secret(_read(self.key, "key"))
        return PemIdentity(_read(self.certificate, "certificate"), key)

    def present(self, context: ssl.SSLContext) -> None:
        """Let ``context`` present the user's certificate. Raises ``ClientSetupError``."""
        try:
            context.load_cert_chain(self.certificate, self.key, password=_refuse_password)
        except (OSError, ssl.SSLError, ValueError):
            identity = self.read()
            raise _unusable(
                identity.certificate, identity.key, f" {self.certificate}", f" {self.key}"
            ) from None


class PemIdentity(Readable, frozen=True):
    """A user in memory: the PEM certificate, and the PEM private key without encryption."""

    certificate: bytes
    key: Secret

    def __post_init__(self) -> None:
        """Require that the key is a ``Secret``. A printed identity would show any other key."""
        if not isinstance(self.key, Secret):
            raise TypeError("the user's key must be a Secret: pass Secret(key)")

    def present(self, context: ssl.SSLContext) -> None:
        """Let ``context`` present the user's certificate. Raises ``ClientSetupError``."""
        try:
            with (
                unnamed_file(self.certificate) as certificate,
                unnamed_file(self.key.reveal()) as key,
            ):
                context.load_cert_chain(
                    path_of(certificate), path_of(key), password=_refuse_password
                )
        except (OSError, ssl.SSLError, ValueError):
            raise _unusable(self.certificate, self.key) from None


def read_pem(certificate: bytes, key: Secret, password: Secret | None = None) -> PemIdentity:
    """Return the user with this PEM certificate and PEM key, which ``password`` decrypts.

    Raises ``ClientSetupError``. No message contains any part of the key.
    """
    if password is None:
        return PemIdentity(certificate, key)
    try:
        plain = load_pem_private_key(key.reveal(), password.reveal())
        pem = plain.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise ClientSetupError(
            "the user's key cannot be decrypted",
            hint="check the passphrase, and that the key is an encrypted PEM key",
        ) from None
    return PemIdentity(certificate, Secret(pem))


def read_pkcs12(content: Secret, password: Secret | None = None) -> PemIdentity:
    """Return the user in a PKCS #12 file (.p12, .pfx), which ``password`` decrypts.

    Further certificates in the file are ignored. Raises ``ClientSetupError``.
    """
    try:
        key, certificate, _ = pkcs12.load_key_and_certificates(
            content.reveal(), password.reveal() if password is not None else None
        )
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise ClientSetupError(
            "the user's PKCS #12 file cannot be read", hint="check the file and its password"
        ) from None
    if key is None or certificate is None:
        raise ClientSetupError(
            "the user's PKCS #12 file must contain a certificate with its private key",
            hint="export both again: openssl pkcs12 -export -in CERTIFICATE -inkey KEY -out FILE",
        )
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return PemIdentity(certificate.public_bytes(Encoding.PEM), Secret(pem))


def make_user(name: str, life: timedelta = _LIFE) -> PemIdentity:
    """Return a new user: a P-256 key (PKCS #8) and a self-signed certificate, valid for ``life``.

    ``name`` is the certificate's common name.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(subject, subject, key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SLACK)
        .not_valid_after(now + life)
        .sign(key, SHA256())
    )
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return PemIdentity(certificate.public_bytes(Encoding.PEM), Secret(pem))


def _read(path: Path, what: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ClientSetupError(
            f"cannot read the user's {what} {path}: {os_reason(error)}",
            hint=reading_hint(path, error),
        ) from None


def _unusable(
    certificate: bytes, key: Secret, certificate_path: str = "", key_path: str = ""
) -> ClientSetupError:
    """Return an error that names the fault in a certificate and key that TLS does not accept."""
    the_certificate = f"the user's certificate{certificate_path}"
    the_key = f"the user's key{key_path}"
    leaf, private = _certificate_in(certificate), _key_in(key)
    if not leaf and not private and _certificate_in(key.reveal()) and _key_in(Secret(certificate)):
        return ClientSetupError(
            f"{the_certificate} and {the_key} are swapped", hint="exchange certificate and key"
        )
    if leaf is None:
        fault = certificate_fault(certificate)
        return ClientSetupError(f"{the_certificate} {fault.problem}", hint=fault.hint)
    if is_encrypted(key.reveal()):
        return ClientSetupError(
            f"{the_key} is encrypted", hint="pass the passphrase: read_pem(..., password)"
        )
    if private is None:
        fault = key_fault(key.reveal())
        return ClientSetupError(f"{the_key} {fault.problem}", hint=fault.hint)
    if not _belongs(private, leaf):
        return ClientSetupError(
            f"{the_key} does not belong to {the_certificate}",
            hint="pass a certificate and its own key",
        )
    return ClientSetupError(
        f"TLS does not accept {the_certificate} with its key",
        hint="use ECDSA P-256, or RSA with 2048 bits or more",
    )


def _certificate_in(pem: bytes) -> x509.Certificate | None:
    try:
        return x509.load_pem_x509_certificate(pem)
    except ValueError:
        return None


def _key_in(pem: Secret) -> PrivateKeyTypes | None:
    try:
        return load_pem_private_key(pem.reveal(), None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None


def _belongs(key: PrivateKeyTypes, certificate: x509.Certificate) -> bool:
    try:
        return key.public_key() == certificate.public_key()
    except (ValueError, UnsupportedAlgorithm):
        return True  # unknown, so the error names a different fault


@contextmanager
def unnamed_file(content: bytes) -> Iterator[int]:
    """Yield the descriptor of a file in memory (``memfd``) with ``content``.

    The file has no name, and ends with its last open descriptor. A child process can inherit the
    descriptor. The file serves programs and libraries that read secrets only from files.
    """
    handle = os.memfd_create("keyhouse-client", os.MFD_CLOEXEC)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
        file.flush()
        yield handle


def path_of(handle: int) -> str:
    """Return the path by which a process opens the file of its own descriptor ``handle``."""
    return f"/proc/self/fd/{handle}"


def _refuse_password() -> NoReturn:
    """Refuse a password prompt. OpenSSL would otherwise ask on the terminal."""
    raise ValueError("the key is encrypted")

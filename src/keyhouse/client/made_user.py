"""A user that is made on the spot: a key and its self-signed certificate."""

from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from keyhouse.base.secret import Secret

__all__ = ["MadeUser", "make_user"]

_LIFE: Final = timedelta(days=90)
_SLACK: Final = timedelta(minutes=5)


class MadeUser(NamedTuple):
    """A client identity, PEM; the key is PKCS #8."""

    certificate: str
    key: Secret


def make_user(name: str, life: timedelta = _LIFE) -> MadeUser:
    """Return a new identity (P-256) whose certificate says ``name`` and is good for ``life``."""
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
    return MadeUser(certificate.public_bytes(Encoding.PEM).decode(), Secret(pem))

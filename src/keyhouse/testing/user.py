"""Users for manifests under test."""

from datetime import UTC, datetime, timedelta

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from keyhouse.client import PemIdentity
from keyhouse.wire.secret import Secret

__all__ = ["DeploymentUser", "make_user"]

_LIFETIME = timedelta(days=3650)  # tests let years pass


class DeploymentUser(msgspec.Struct, frozen=True):
    """A user: ``certificate`` belongs into the manifest, ``identity`` to the SDK."""

    certificate: str  # PEM
    identity: PemIdentity


def make_user(name: str) -> DeploymentUser:
    """Return a new user with a certificate for ten years, signed by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + _LIFETIME)
        .sign(key, SHA256())
    )
    pem = certificate.public_bytes(Encoding.PEM)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return DeploymentUser(pem.decode("ascii"), PemIdentity(pem, Secret(private)))

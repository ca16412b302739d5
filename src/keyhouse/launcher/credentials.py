"""What a workload shows when it joins: a TLS certificate of its own, and a request for a real one.

The key is drawn for this start and is gone with it: the coordinator delivers the workload's key.
"""

from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from keyhouse.base.secret import Secret
from keyhouse.launcher.names import Names

__all__ = ["COMMON_NAME", "Credentials", "make_credentials"]

COMMON_NAME: Final = "Keyhouse Workload"
# Nobody verifies this certificate; its dates allow for clocks that differ.
_BEFORE: Final = timedelta(days=1)
_AFTER: Final = timedelta(days=2)


class Credentials(msgspec.Struct, frozen=True):
    """A fresh key, and what it has signed."""

    key: Secret  # PKCS #8 DER, P-256
    certificate: bytes  # DER, self-signed; the quote is over its SHA-256
    request: bytes  # PKCS #10 DER


def make_credentials(names: Names, now: datetime | None = None) -> Credentials:
    """Return credentials over a fresh P-256 key. ``now`` has a zone; the present if not given.

    Source: wire reference, "Launcher", steps 1 and 3. P-256 where it says P-384: the proof of a
    P-384 key costs the coordinator much more.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    alternatives = x509.SubjectAlternativeName(
        [*map(x509.DNSName, names.dns), *map(x509.IPAddress, names.ips)]
    )
    request = (
        x509.CertificateSigningRequestBuilder()
        .subject_name(x509.Name([]))
        .add_extension(alternatives, critical=False)
        .sign(key, SHA256())
    )
    return Credentials(
        Secret(key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())),
        _certificate(key, alternatives, now or datetime.now(UTC)),
        request.public_bytes(Encoding.DER),
    )


def _certificate(
    key: ec.EllipticCurvePrivateKey, alternatives: x509.SubjectAlternativeName, now: datetime
) -> bytes:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, COMMON_NAME)])
    usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BEFORE)
        .not_valid_after(now + _AFTER)
        .add_extension(_usage(), critical=True)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(alternatives, critical=False)
        .sign(key, SHA256())
    )
    return certificate.public_bytes(Encoding.DER)


def _usage() -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=True,
        key_cert_sign=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )

"""Signing requests of workloads: as launchers make them, and faulty requests."""

import ipaddress
from collections.abc import Sequence
from functools import cache

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding

__all__ = ["LOOPBACK", "request_key", "signing_request"]

LOOPBACK = ("127.0.0.1", "::1")

PrivateKey = ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey


@cache
def request_key() -> ec.EllipticCurvePrivateKey:
    """Return a P-256 key: the same in the whole run."""
    return ec.generate_private_key(ec.SECP256R1())


def signing_request(
    dns_names: Sequence[str] = ("localhost",),
    addresses: Sequence[str] = LOOPBACK,
    *,
    subject: dict[x509.ObjectIdentifier, str] | None = None,
    further: Sequence[x509.GeneralName] = (),
    key: PrivateKey | None = None,
) -> bytes:
    """Return a PKCS #10 request (DER) for these names. ``key`` None: ``request_key``."""
    key = key or request_key()
    attributes = [x509.NameAttribute(oid, value) for oid, value in (subject or {}).items()]
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(attributes))
    names: list[x509.GeneralName] = [x509.DNSName(name) for name in dns_names]
    names += [x509.IPAddress(ipaddress.ip_address(address)) for address in addresses]
    if names or further:
        extension = x509.SubjectAlternativeName([*names, *further])
        builder = builder.add_extension(extension, critical=False)
    algorithm = None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    return builder.sign(key, algorithm).public_bytes(Encoding.DER)

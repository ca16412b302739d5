"""Identifiers in certificates: object identifiers (OID), serial numbers, and key identifiers."""

import hashlib
import secrets
from collections.abc import Sequence
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from keyhouse.wire import lineage, workload_api

LINEAGE: Final = x509.ObjectIdentifier(lineage.LINEAGE)
MARBLE_TYPE: Final = x509.ObjectIdentifier(workload_api.MARBLE_TYPE)

_MOST: Final = 2**31  # an arc has at most 31 bits
_KEY_IDENTIFIER: Final = 20  # bytes


def from_arcs(numbers: Sequence[int]) -> x509.ObjectIdentifier:
    """Return the OID of ``numbers``, such as ``(2, 5, 4, 3)``. Raises ``ValueError`` if invalid.

    Arcs beyond 31 bits are refused. Go, for example, cannot parse a certificate with such an arc.
    """
    if any(number >= _MOST for number in numbers):
        raise ValueError("an arc of an object identifier has more than 31 bits")
    return x509.ObjectIdentifier(".".join(str(number) for number in numbers))


def arcs(identifier: x509.ObjectIdentifier) -> tuple[int, ...]:
    """Return the numbers of an object identifier, such as ``(2, 5, 4, 3)``."""
    return tuple(int(arc) for arc in identifier.dotted_string.split("."))


def random_serial() -> int:
    """Return a random serial number, at least 1 and below 2^128.

    RFC 5280, 4.1.2.2, requires a positive number of at most 20 octets.
    """
    return 1 + secrets.randbelow(2**128 - 1)


def key_identifier(public_key: CertificatePublicKeyTypes) -> bytes:
    """Return the key identifier: 20 bytes of SHA-256 over the bits of the subjectPublicKey.

    Source: RFC 7093, section 2, method 1.
    """
    if isinstance(public_key, ec.EllipticCurvePublicKey):
        bits = public_key.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
    elif isinstance(public_key, rsa.RSAPublicKey):
        bits = public_key.public_bytes(Encoding.DER, PublicFormat.PKCS1)
    else:
        bits = public_key.public_bytes(Encoding.Raw, PublicFormat.Raw)
    return hashlib.sha256(bits).digest()[:_KEY_IDENTIFIER]

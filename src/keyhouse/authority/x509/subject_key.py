"""The identifier of a public key in certificates."""

import hashlib

from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

__all__ = ["key_identifier"]

_LENGTH = 20


def key_identifier(public_key: CertificatePublicKeyTypes) -> bytes:
    """Return the first 20 bytes of SHA-256 over the bits of the subjectPublicKey.

    Source: RFC 7093, section 2, method 1.
    """
    if isinstance(public_key, ec.EllipticCurvePublicKey):
        bits = public_key.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
    elif isinstance(public_key, rsa.RSAPublicKey):
        bits = public_key.public_bytes(Encoding.DER, PublicFormat.PKCS1)
    else:
        bits = public_key.public_bytes(Encoding.Raw, PublicFormat.Raw)
    return hashlib.sha256(bits).digest()[:_LENGTH]

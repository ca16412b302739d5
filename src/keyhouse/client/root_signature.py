"""Signatures of a coordinator's root key."""

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from keyhouse.client.errors import TrustError


def require_signature(
    root_der: bytes, message: bytes, signature: bytes, what: str, *, hint: str = ""
) -> None:
    """Raise ``TrustError`` unless ``root_der`` signed ``message``: ECDSA, SHA-256, ASN.1 DER.

    ``what`` names the message in the error. ``hint`` is the advice for a failed check.
    """
    key = x509.load_der_x509_certificate(root_der).public_key()
    signed = isinstance(key, ec.EllipticCurvePublicKey) and _verifies(key, message, signature)
    if not signed:
        raise TrustError(f"{what} is not signed by the coordinator's root", hint=hint)


def _verifies(key: ec.EllipticCurvePublicKey, message: bytes, signature: bytes) -> bool:
    try:
        key.verify(signature, message, ec.ECDSA(hashes.SHA256()))
    except (ValueError, InvalidSignature):
        return False
    return True

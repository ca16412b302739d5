"""Verifies signatures of a deployment's root key, for the coordinator and for outsiders."""

from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from keyhouse.base.errors import BrokenError

LOG_KEY_CONTEXT: Final = b"keyhouse log key v1\0"
"""Precedes the verifier key of a log, as text, in the message that the root key signs."""


def is_signed_by_root(root_cert: bytes, signature: bytes, message: bytes) -> bool:
    """Return whether the key of ``root_cert`` (DER) made ``signature`` over ``message``.

    The signature is ECDSA in ASN.1 DER over SHA-256. Raises ``BrokenError`` for a certificate that
    cannot be parsed.
    """
    try:
        public_key = x509.load_der_x509_certificate(root_cert).public_key()
    except ValueError:
        raise BrokenError("a certificate of the coordinator cannot be read") from None
    if not isinstance(public_key, ec.EllipticCurvePublicKey):
        return False
    try:
        public_key.verify(signature, message, ec.ECDSA(hashes.SHA256()))
    except InvalidSignature:
        return False
    return True

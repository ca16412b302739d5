"""Sign approvals, on the side of the user."""

from collections.abc import Callable

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

from keyhouse.transparency.approval import (
    APPROVAL_TYPE,
    PSS,
    SHA256,
    Approval,
    Envelope,
    EnvelopeSignature,
    SignedApproval,
    signed_message,
    unsupported_key,
)
from keyhouse.transparency.canonical import canonical
from keyhouse.transparency.errors import LogInvalidError


def sign_approval(approval: Approval, sign: Callable[[bytes], bytes]) -> bytes:
    """Return ``approval`` in a signed envelope, in bytes.

    ``sign`` returns the signature of the user's key over a message. Raises ``LogInvalidError`` if
    ``SignedApproval.read`` would refuse the envelope, and all errors of ``sign``.
    """
    payload = canonical(approval)
    signature = EnvelopeSignature(sign(signed_message(payload)))
    raw = canonical(Envelope(payload, APPROVAL_TYPE, (signature,)))
    if SignedApproval.read(raw).approval != approval:
        raise LogInvalidError("an approval does not decode to the same value")
    return raw


def signature_by(key: PrivateKeyTypes, message: bytes) -> bytes:
    """Return the signature of ``key`` over ``message``, for ``sign_approval``.

    Raises ``LogInvalidError`` for a kind of key that cannot sign approvals.
    """
    if isinstance(key, Ed25519PrivateKey):
        return key.sign(message)
    if isinstance(key, RSAPrivateKey):
        return key.sign(message, PSS, SHA256)
    if isinstance(key, ec.EllipticCurvePrivateKey):
        return key.sign(message, ec.ECDSA(SHA256))
    raise unsupported_key()

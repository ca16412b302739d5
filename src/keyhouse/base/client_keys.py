"""Refuse client keys whose signatures are expensive to verify.

A TLS handshake runs on the event loop and takes about a millisecond with an ordinary key. An
anonymous client with an expensive key would delay every other client.
"""

from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, mldsa
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from keyhouse.base.rsa_keys import is_costly_rsa

SMALL: Final = 256
"""Bits. A signature by a key of this size is cheap to verify, for every algorithm."""

_CURVES: Final = (ec.SECP256R1, ec.SECP384R1, ec.SECP521R1)
_OTHERS: Final = (
    ed25519.Ed25519PublicKey,
    ed448.Ed448PublicKey,
    mldsa.MLDSA44PublicKey,
    mldsa.MLDSA65PublicKey,
    mldsa.MLDSA87PublicKey,
)


def has_costly_key(certificate: bytes) -> bool:
    """Return whether a signature by the key of ``certificate`` (DER) may be expensive to verify.

    A key of up to ``SMALL`` (256) bits is always cheap, so a caller may skip this function for such
    a key. Keys of unknown kinds and unreadable certificates count as expensive.
    """
    try:
        key = x509.load_der_x509_certificate(certificate).public_key()
    except Exception:  # noqa: BLE001 - hostile bytes, many classes of errors, one answer
        return True
    if isinstance(key, RSAPublicKey):
        return is_costly_rsa(key)
    if isinstance(key, ec.EllipticCurvePublicKey):
        return not isinstance(key.curve, _CURVES)
    return not isinstance(key, _OTHERS)

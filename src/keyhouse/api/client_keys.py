"""Which keys of clients are refused: those whose proof costs too much.

A handshake runs in the event loop, where it takes about a millisecond with an ordinary key. A
stranger with a costly one would make everybody else wait.
"""

from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import mldsa
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from keyhouse.authority import is_costly_rsa

__all__ = ["SMALL", "has_costly_key"]

SMALL: Final = 521
"""Bits. A proof by a key of this size costs little: of elliptic curves OpenSSL then takes those
alone that ``tls.SIGNATURES`` names."""

_LARGER: Final = (mldsa.MLDSA44PublicKey, mldsa.MLDSA65PublicKey, mldsa.MLDSA87PublicKey)


def has_costly_key(certificate: bytes) -> bool:
    """Tell whether checking one signature by the key of ``certificate`` (DER) may cost much.

    The key has more than ``SMALL`` bits. Of an unknown kind, or unreadable, it may.
    """
    try:
        key = x509.load_der_x509_certificate(certificate).public_key()
    except Exception:  # noqa: BLE001 - hostile bytes, many classes of errors, one answer
        return True
    return is_costly_rsa(key) if isinstance(key, RSAPublicKey) else not isinstance(key, _LARGER)

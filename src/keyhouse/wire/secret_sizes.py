"""How large the keys of secrets may be, in bits."""

from typing import Final

from keyhouse.base import rsa_keys
from keyhouse.wire.secret_types import SecretType

LARGEST_KEY: Final = 8 * 1024 * 1024
"""Of a symmetric key that is stored: 1 MiB."""

LARGEST_DERIVED_KEY: Final = 255 * 32 * 8
"""Of a symmetric key per marble: HKDF-SHA256 yields 255 blocks of 32 bytes (RFC 5869, 2.3)."""

CURVE_SIZES: Final = (224, 256, 384, 521)


def size_problem(kind: SecretType, size: int, *, shared: bool, user_defined: bool) -> str:
    """Return what is wrong with ``size`` for a secret of ``kind``; empty if nothing.

    A certificate that a user uploads may leave the size open (0). Source: manifest format, "Types
    and sizes".
    """
    if kind is SecretType.PLAIN or (kind.is_certificate and user_defined and size == 0):
        return ""
    if kind is SecretType.SYMMETRIC_KEY:
        largest = LARGEST_KEY if shared or user_defined else LARGEST_DERIVED_KEY
        fits = 0 < size <= largest and size % 8 == 0
        return "" if fits else f"is {size}, must be a multiple of 8 from 8 to {largest}"
    if kind is SecretType.CERT_ED25519:
        return f"is {size}, must be 0 or left out: Ed25519 has one size" if size else ""
    if kind is SecretType.CERT_RSA:
        least, most = rsa_keys.SMALLEST_GENERATED, rsa_keys.LARGEST
        return "" if least <= size <= most else f"is {size}, must be {least} to {most}"
    return "" if size in CURVE_SIZES else f"is {size}, must be 224, 256, 384 or 521"

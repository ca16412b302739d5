"""The RSA keys of others: how large one may be that signatures are checked with.

OpenSSL checks with moduli of up to 16,384 bits, and with exponents as long as the modulus where
that has 3,072 bits or fewer. One signature then takes 7 to 20 ms, of a key that its owner signs
with at no cost.
"""

from typing import Final

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from keyhouse.base import rsa_sizes

__all__ = ["LARGEST_EXPONENT", "is_costly_rsa"]

LARGEST_EXPONENT: Final = 32
"""Bits of the public exponent."""


def is_costly_rsa(key: RSAPublicKey) -> bool:
    """Tell whether checking a signature of ``key`` costs more than checking one of other kinds."""
    exponent = key.public_numbers().e
    return key.key_size > rsa_sizes.LARGEST or exponent.bit_length() > LARGEST_EXPONENT

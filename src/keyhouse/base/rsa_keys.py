"""Limits of RSA keys, in bits: each limit once.

The work with a private key grows with the third power of its size, and OpenSSL sets no useful
limit. It verifies with moduli of up to 16,384 bits, and with exponents as long as the modulus where
that has 3,072 bits or fewer. Verifying one signature then takes 7 to 20 ms, while signing with such
a key costs its owner nothing.
"""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:  # readers of the limits alone do without loading cryptography
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

SMALLEST: Final = 2048
"""Of a key that has to protect something, or prove it to the coordinator."""

LARGEST: Final = 8192
"""Of a key that is generated, uploaded or presented: seconds to generate, a millisecond to use."""

SMALLEST_GENERATED: Final = 1024
"""Of a key that a manifest has generated for its workloads, as the interface always did."""

LARGEST_OF_HOLDERS: Final = 16384
"""Of a recovery key, which is only encrypted to: OpenSSL encrypts to nothing larger."""

LARGEST_EXPONENT: Final = 32
"""Of the public exponent."""


def is_costly_rsa(key: "RSAPublicKey") -> bool:
    """Tell whether verifying a signature of ``key`` costs more than one of other kinds of keys."""
    exponent = key.public_numbers().e
    return key.key_size > LARGEST or exponent.bit_length() > LARGEST_EXPONENT

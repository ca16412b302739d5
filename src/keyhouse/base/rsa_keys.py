"""Smallest and largest RSA keys that Keyhouse uses, in bits.

Two costs require an upper limit. The cost of a private-key operation grows with the third power of
the key size. And an attacker's public key can make a verification costly. OpenSSL accepts moduli of
up to 16,384 bits, and for moduli of up to 3,072 bits an exponent as long as the modulus. A
verification with the largest values takes 7 to 20 ms. The attacker pays nothing: random bytes serve
as the signature.
"""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:  # readers of the limits alone do without loading cryptography
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

SMALLEST: Final = 2048
"""Smallest key that may protect a secret or authenticate a client to the coordinator."""

LARGEST: Final = 8192
"""Largest key that is generated, uploaded or presented. Generation takes seconds, use 1 ms."""

SMALLEST_GENERATED: Final = 1024
"""Smallest key that a manifest may generate for workloads: the limit of the interface."""

LARGEST_OF_HOLDERS: Final = 16384
"""Largest recovery key: OpenSSL encrypts to no larger key, and Keyhouse only encrypts to it."""

LARGEST_EXPONENT: Final = 32
"""Largest public exponent. 65537 is usual and has 17 bits."""


def is_costly_rsa(key: "RSAPublicKey") -> bool:
    """Return whether ``key`` exceeds the limits of this file, so a verification may be costly."""
    exponent = key.public_numbers().e
    return key.key_size > LARGEST or exponent.bit_length() > LARGEST_EXPONENT

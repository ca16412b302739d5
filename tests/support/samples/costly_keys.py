"""RSA keys that cost whoever checks their signatures much, and whoever makes them nothing."""

import math
from typing import Final

from cryptography.hazmat.primitives.asymmetric import rsa

__all__ = ["COSTLY", "LARGEST", "rsa_key"]

_PRIMES: Final = {
    bits: 2**bits - 1 for bits in (521, 607, 2203, 2281, 3217, 4253, 4423)
}  # of Mersenne


def rsa_key(first: int, second: int, *, exponent: int = 65537) -> rsa.RSAPrivateKey:
    """Return a key of ``first + second`` bits, which are those of its primes.

    ``exponent`` 0 takes one about as long as the modulus.
    """
    p, q = _PRIMES[first], _PRIMES[second]
    order = math.lcm(p - 1, q - 1)
    private = pow(exponent, -1, order) if exponent else 65537
    public = exponent or pow(private, -1, order)
    numbers = rsa.RSAPrivateNumbers(
        p, q, private, private % (p - 1), private % (q - 1), pow(q, -1, p),
        rsa.RSAPublicNumbers(public, p * q),
    )  # fmt: skip
    return numbers.private_key(unsafe_skip_rsa_key_validation=True)


LARGEST: Final = rsa_key(3217, 4423, exponent=2**32 - 5)  # 7,640 bits, and an exponent of 32

COSTLY: Final = {
    "an exponent of 33 bits": rsa_key(607, 2203, exponent=2**32 + 15),
    "an exponent about as long as the modulus": rsa_key(521, 2281, exponent=0),
    "a modulus of 8,676 bits": rsa_key(4253, 4423),
}

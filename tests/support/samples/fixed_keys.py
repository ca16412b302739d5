"""Stored keys, because their generation takes long.

Some RSA keys make the verification of their signatures expensive.
"""

import math
from functools import cache
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.asymmetric import dsa, rsa

__all__ = ["COSTLY", "LARGEST", "RSA_4096", "dsa_key", "primes_of", "rsa_key", "unused_rsa_key"]

_PRIMES: Final = Path(__file__).with_name("rsa_primes.txt")  # bits of the modulus, then two primes

_DSA: Final = dsa.DSAParameterNumbers(
    p=int(
        "cb8fffbfe01712e10839e061dfd86f78d327e5a428c8d6cf90e7a0c31b533fedb3adc405ba3f72f490dba69e3014"
        "50c546c76c57413e321f3399db53e42649086cad874906a84214e2beefd3aee26d943e6a1e1b7b7257979a449fa2"
        "f172c4ec6b67768bf766a2d3bf06faef90b65f6fd6cc1010865420b662dcf5ebf2554bf6f77396bfd36dad6214ae"
        "fac0004600a7de55cf144306e95b2c60646ad610b23a646465a48aebf1b71b4abbdb0dcb69e8eb55f1e6a47fc5ab"
        "05b71289453364c554d5ff933a78aeb8734552c614c2fd315de915f69589dc5f13c82c68681122bb8d1f1e41a99d"
        "5675db4789e704a2a2f5208865896a20ac43458a389b2d1c9c63",
        16,
    ),
    q=int("b8e86c0a2c4184c19916cb7714e5fd49d7c50cf6781b44626b5eb46b052b6283", 16),
    g=int(
        "69a6718a0a2641e283ae8fdc3274b670dac0f0dcc0ed6292e916a2e5884d061db9651451228e1d2c67edefb8d31a"
        "cd982198fd83d16c19070ace0c605c5149af0b27614b1e1c82e7b0093b39360cb728762a07193c8716d4dba33d82"
        "84aeb021abe1d13085ac659a9b4b424cfefc9ec6cfb05cdf48365fe9c13ceb261e0140330389d64a63d7e0932f44"
        "a9664a30b9a59275adbc5cc811f0a55b3c21faa105beb16fd7122f0fb89edf90ea7b24acb1ffe08466d77b4b333a"
        "c73b0a57b4ef7755db864636c7447832be0b411459860ba5c255b61b070a89a69c2f6d3fe502fe3a7fbdc0156e0f"
        "fcf4b571c3727cfc8474b5853d52aec9e08da38a3d2ad662eb78",
        16,
    ),
).parameters()


def primes_of(bits: int) -> list[tuple[int, int]]:
    """Return the two primes of each stored key with a modulus of ``bits`` bits."""
    lines = map(str.split, _PRIMES.read_text(encoding="ascii").splitlines())
    return [(int(p, 16), int(q, 16)) for size, p, q in lines if int(size) == bits]


_unused: Final = cache(primes_of)


def unused_rsa_key(bits: int = 2048, exponent: int = 65537) -> rsa.RSAPrivateKey:
    """Return an RSA key that no other call in this process returns.

    The key is generated only if no stored key of this size is left. Stored sizes are 1024, 2048,
    3072 and 4096 bits. ``exponent`` is 65537 or 3.
    """
    if not _unused(bits):
        return rsa.generate_private_key(exponent, bits)
    return rsa_key(*_unused(bits).pop(), exponent)


def rsa_key(p: int, q: int, exponent: int) -> rsa.RSAPrivateKey:
    """Return the key of two primes; ``exponent`` 0 makes an exponent as long as the modulus."""
    order = math.lcm(p - 1, q - 1)
    private = pow(exponent, -1, order) if exponent else 65537
    public = exponent or pow(private, -1, order)
    numbers = rsa.RSAPrivateNumbers(
        p, q, private, private % (p - 1), private % (q - 1), pow(q, -1, p),
        rsa.RSAPublicNumbers(public, p * q),
    )  # fmt: skip
    return numbers.private_key(unsafe_skip_rsa_key_validation=True)


def _mersenne(first: int, second: int, exponent: int = 65537) -> rsa.RSAPrivateKey:
    """Return a key of two Mersenne primes with ``first`` and ``second`` bits."""
    return rsa_key(2**first - 1, 2**second - 1, exponent)


LARGEST: Final = _mersenne(3217, 4423, 2**32 - 5)  # 7,640 bits, with an exponent of 32 bits

COSTLY: Final = {
    "an exponent of 33 bits": _mersenne(607, 2203, 2**32 + 15),
    "an exponent about as long as the modulus": _mersenne(521, 2281, 0),
    "a modulus of 8,676 bits": _mersenne(4253, 4423),
}


RSA_4096: Final = unused_rsa_key(4096)


def dsa_key() -> dsa.DSAPrivateKey:
    """Return a new key of 2048 bits under fixed parameters."""
    return _DSA.generate_private_key()

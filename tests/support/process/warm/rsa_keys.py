"""RSA-4096 keys for warm coordinators from stored primes: to find two primes takes a second."""

import itertools
import os
from contextlib import suppress
from typing import Final

from cryptography.hazmat.primitives.asymmetric import rsa

from support.samples.fixed_keys import primes_of, rsa_key

__all__ = ["KeptKeys"]

_FOR_EACH: Final = 4
_EXPONENT: Final = 65537
_BITS: Final = 4096


class KeptKeys:
    """The RSA keys for the children of a fork server. Each server has its own keys.

    After its first keys, a child generates keys itself. Processes that the child forks also
    generate their keys. More than a hundred processes start before two of them share a key.
    """

    def __init__(self, server: int, servers: int) -> None:
        primes = [prime for pair in primes_of(_BITS) for prime in pair]
        pairs = [*itertools.combinations(primes, 2)][server::servers]
        few = (pairs[at : at + _FOR_EACH] for at in range(0, len(pairs), _FOR_EACH))
        self._few: Final = itertools.cycle([*few])
        self._pairs: list[tuple[int, int]] = []

    def choose(self) -> None:
        """Choose the keys for the next child."""
        self._pairs = [*next(self._few)]

    def use(self) -> None:
        """Use the chosen keys in this child."""
        generate, owner, pairs = rsa.generate_private_key, os.getpid(), self._pairs

        def take(public_exponent: int, key_size: int, backend: object = None) -> rsa.RSAPrivateKey:
            if (public_exponent, key_size, os.getpid()) == (_EXPONENT, _BITS, owner):
                with suppress(IndexError):
                    return rsa_key(*pairs.pop(), _EXPONENT)
            return generate(public_exponent, key_size, backend)

        rsa.generate_private_key = take

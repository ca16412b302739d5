"""RSA-4096 keys for warm coordinators, of primes that are kept: to find two takes a second."""

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
    """The keys for the children of one nursery of several; each nursery has others.

    A child makes keys itself once it has had its few, and so does a process that it forks: no key
    is in two processes until more than a hundred others have begun.
    """

    def __init__(self, nursery: int, nurseries: int) -> None:
        primes = [prime for pair in primes_of(_BITS) for prime in pair]
        pairs = [*itertools.combinations(primes, 2)][nursery::nurseries]
        few = (pairs[at : at + _FOR_EACH] for at in range(0, len(pairs), _FOR_EACH))
        self._few: Final = itertools.cycle([*few])
        self._pairs: list[tuple[int, int]] = []

    def choose(self) -> None:
        """Choose the keys of the child that is forked next."""
        self._pairs = [*next(self._few)]

    def use(self) -> None:
        """Have this process, that child, take these in place of generating any."""
        generate, owner, pairs = rsa.generate_private_key, os.getpid(), self._pairs

        def take(public_exponent: int, key_size: int, backend: object = None) -> rsa.RSAPrivateKey:
            if (public_exponent, key_size, os.getpid()) == (_EXPONENT, _BITS, owner):
                with suppress(IndexError):
                    return rsa_key(*pairs.pop(), _EXPONENT)
            return generate(public_exponent, key_size, backend)

        rsa.generate_private_key = take

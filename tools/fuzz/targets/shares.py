"""Shares of a secret.

Oracle: any k of n shares restore the secret, in any order. Fewer shares do not restore the secret
(the chance is 2^-256). Changed, repeated and cut shares are refused (``BrokenError``), or result in
a wrong secret, which the key check of the journal refuses later. The only permitted exception is
``BrokenError``.
"""

import hashlib
from random import Random
from typing import ClassVar, Final

import msgspec
from fuzz.mutations import flipped, mutated
from fuzz.target import FindingError, Target

from keyhouse.authority.recovery.shares import combine_shamir, combine_xor, split_shamir, split_xor
from keyhouse.base.errors import BrokenError
from keyhouse.base.secret import Secret

__all__ = ["ShareTarget"]

_SIZE: Final = 32


class _Case(msgspec.Struct, frozen=True, array_like=True):
    shares: list[bytes]
    threshold: int  # 0: XOR of all shares
    digest: bytes  # SHA-256 of the secret
    whole: bool  # enough true shares and no damaged share


_encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(_Case)


class ShareTarget(Target):
    """Shares of both schemes: enough, too few, or damaged."""

    name: ClassVar[str] = "shares"
    about: ClassVar[str] = "shares of a secret: enough, too few, damaged"

    def draw(self, chance: Random) -> bytes:
        """Return some shares of a new secret."""
        secret = chance.randbytes(_SIZE)
        count = chance.choice((2, 2, 3, 4, 5, 9, 20))
        threshold = chance.choice((0, chance.randint(2, count)))
        if threshold:
            made = split_shamir(Secret(secret), shares=count, threshold=threshold)
        else:
            made = split_xor(Secret(secret), count)
        shares = [share.reveal() for share in made]
        chance.shuffle(shares)
        needed = threshold or count
        whole = chance.random() < 0.4
        kept = chance.randint(needed, count) if whole else chance.randint(0, count)
        shares = shares[:kept]
        if not whole and (kept >= needed or chance.random() < 0.5):
            shares = _damaged(shares, chance)
        return _encode(_Case(shares, threshold, hashlib.sha256(secret).digest(), whole))

    def judge(self, case: bytes) -> str:
        """Combine the shares."""
        given = _decoder.decode(case)
        combine = combine_shamir if given.threshold else combine_xor
        try:
            found = combine([Secret(share) for share in given.shares])
        except BrokenError as broken:
            if given.whole:
                raise FindingError("true shares were refused") from None
            return f"refused: {broken.message}"
        right = hashlib.sha256(found.reveal()).digest() == given.digest
        if right is not given.whole:
            raise FindingError(
                "true shares resulted in a wrong secret"
                if given.whole
                else "too few or damaged shares restored the secret"
            )
        return "recovered" if right else "another secret"


def _damaged(shares: list[bytes], chance: Random) -> list[bytes]:
    """Change one share. Each share counts: in Shamir's scheme, all are on one polynomial."""
    if not shares:
        return [chance.randbytes(_SIZE + 1)]
    at = chance.randrange(len(shares))
    old = shares[at]
    change = chance.choice((flipped, mutated, _with_other_x, _random))
    new = change(old, chance)
    if new == old:
        new = flipped(old, chance)
    return [*shares[:at], new, *shares[at + 1 :]]


def _with_other_x(share: bytes, chance: Random) -> bytes:
    return share[:-1] + bytes([chance.randrange(256)])


def _random(share: bytes, chance: Random) -> bytes:
    return chance.randbytes(len(share))

"""Splitting a secret among holders: XOR for all of them, Shamir for a threshold.

Shamir's scheme over GF(2^8) with the polynomial 0x11B: for each byte of the secret one random
polynomial of degree threshold - 1 whose constant term is that byte. A share is its values at x,
followed by x itself. Source: Client API, "Recovery: Material".

All bytes of a secret are computed at once, as the lanes of one long integer. There are no tables
and no branches that depend on a secret, so neither caches nor jumps tell of it.
"""

import secrets
from collections.abc import Sequence
from functools import reduce

from keyhouse.base.errors import BrokenError
from keyhouse.base.secret import Secret

_MOST_SHARES = 255  # x is a byte and not 0: the share at 0 would be the secret
_LEAST_THRESHOLD = 2
_REDUCTION = 0x1B  # x^8 = x^4 + x^3 + x + 1
_BITS = 8


def split_xor(secret: Secret, shares: int) -> tuple[Secret, ...]:
    """Return random shares, each as long as the secret, that give it when all are combined."""
    if shares < 1:
        raise BrokenError("a secret was to be split into no share")
    value = secret.reveal()
    pads = [secrets.token_bytes(len(value)) for _ in range(shares - 1)]
    return tuple(Secret(share) for share in (*pads, reduce(_xor, pads, value)))


def combine_xor(shares: Sequence[Secret]) -> Secret:
    """Return the secret of all shares; whether it is the right one, its user has to find out.

    Raises ``BrokenError`` for no shares, different lengths, or a share given twice.
    """
    values = [share.reveal() for share in shares]
    if len({len(value) for value in values}) != 1:
        raise BrokenError("shares of different lengths, or none, cannot be combined")
    if len(set(values)) != len(values):
        raise BrokenError("a share was given twice")
    return Secret(reduce(_xor, values))


def split_shamir(secret: Secret, *, shares: int, threshold: int) -> tuple[Secret, ...]:
    """Return shares of which any ``threshold`` give the secret, and fewer tell nothing of it.

    Each share is one byte longer than the secret.
    """
    if not _LEAST_THRESHOLD <= threshold <= shares <= _MOST_SHARES:
        raise BrokenError(
            "a secret was to be split with an impossible threshold or number of shares"
        )
    length = len(secret)
    coefficients = [_lanes(secrets.token_bytes(length)) for _ in range(threshold - 1)]
    # Highest degree first, as Horner's rule takes them; the secret is the constant term.
    coefficients.append(_lanes(secret.reveal()))
    points = secrets.SystemRandom().sample(range(1, _MOST_SHARES + 1), shares)
    return tuple(
        Secret(_value_at(x, coefficients, length).to_bytes(length) + bytes([x])) for x in points
    )


def combine_shamir(shares: Sequence[Secret]) -> Secret:
    """Return the secret of at least ``threshold`` shares, by interpolation at 0.

    Fewer give a wrong secret without notice, so its user has to check it. Raises ``BrokenError``
    for fewer than 2 shares, different lengths, an x of 0 or an x given twice.
    """
    values = [share.reveal() for share in shares]
    if len(values) < _LEAST_THRESHOLD:
        raise BrokenError("too few shares to combine")
    length = len(values[0]) - 1
    if length < 1 or any(len(value) != length + 1 for value in values):
        raise BrokenError("shares that are too short or of different lengths cannot be combined")
    points = [value[-1] for value in values]
    if 0 in points or len(set(points)) != len(points):
        raise BrokenError("a share was given twice, or is invalid")
    total = 0
    for x, value in zip(points, values, strict=True):
        total ^= _multiply(_lanes(value[:-1]), _weight(x, points), length)
    return Secret(total.to_bytes(length))


def _value_at(x: int, coefficients: Sequence[int], length: int) -> int:
    return reduce(lambda total, c: _multiply(total, x, length) ^ c, coefficients)


def _weight(x: int, points: Sequence[int]) -> int:
    """Return the Lagrange coefficient of ``x`` at 0: the product of p / (p - x) over the others.

    In this field, minus is the same as XOR.
    """
    others = [point for point in points if point != x]
    above = reduce(lambda a, b: _multiply(a, b, 1), others, 1)
    below = reduce(lambda a, b: _multiply(a, b ^ x, 1), others, 1)
    return _multiply(above, _inverse(below), 1)


def _inverse(value: int) -> int:
    """Return value^254: the field has 255 elements beside 0, so this times value is 1."""
    power = value
    result = 1
    for _ in range(_BITS - 1):
        power = _multiply(power, power, 1)
        result = _multiply(result, power, 1)
    return result


def _multiply(lanes: int, scalar: int, length: int) -> int:
    """Return each of the ``length`` byte lanes times ``scalar`` in GF(2^8)."""
    ones = int.from_bytes(b"\x01" * length)
    low = ones * 0x7F
    product = 0
    for bit in range(_BITS):
        product ^= lanes * (scalar >> bit & 1)
        carries = lanes >> (_BITS - 1) & ones
        lanes = (lanes & low) << 1 ^ carries * _REDUCTION
    return product


def _lanes(value: bytes) -> int:
    return int.from_bytes(value)


def _xor(a: bytes, b: bytes) -> bytes:
    return (_lanes(a) ^ _lanes(b)).to_bytes(len(a))

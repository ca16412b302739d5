"""Splits the data key among holders of recovery keys: XOR for all of them, Shamir for a threshold.

With XOR all shares together give the key. Shamir's scheme uses GF(2^8) with the polynomial 0x11B.
Each byte of the secret is the constant term of a random polynomial of degree threshold - 1. A share
has the values of these polynomials at x, followed by x. Any ``threshold`` points determine the
polynomials; fewer points fit every secret. Source: ``docs/explanation/cryptography.md``,
"Recovery".

All bytes of a secret are computed at once, as the lanes of a long integer. The code has no tables
and no branches that depend on a secret, so caches and jumps reveal nothing about it.
"""

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Final

import msgspec
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.serialization import load_der_public_key

from keyhouse.authority.library import LIBRARY_REFUSALS
from keyhouse.base import rsa_keys
from keyhouse.base.errors import BrokenError, InvalidError, Problem
from keyhouse.base.printable import at
from keyhouse.base.secret import Secret

_MOST_SHARES = 255  # x is a byte above 0, because the value at 0 is the secret
_LEAST_THRESHOLD = 2  # with a threshold of 1, each share would be the secret
_REDUCTION = 0x1B  # the polynomial of AES, x^8 = x^4 + x^3 + x + 1 (FIPS 197, 4.2)
_BITS = 8  # of a byte

_DATA_KEY_BYTES: Final = 32  # an AES-256 key


def split_xor(secret: Secret, shares: int) -> tuple[Secret, ...]:
    """Return ``shares`` random shares, each as long as ``secret``. All together give the secret."""
    if shares < 1:
        raise BrokenError("a secret cannot be split into 0 shares")
    value = secret.reveal()
    pads = [secrets.token_bytes(len(value)) for _ in range(shares - 1)]
    return tuple(Secret(share) for share in (*pads, reduce(_xor, pads, value)))


def combine_xor(shares: Sequence[Secret]) -> Secret:
    """Return the secret of ``shares``, which must be all shares of ``split_xor``.

    A missing or wrong share gives a wrong secret without an error, so the caller must check the
    secret. Raises ``BrokenError`` for no shares, different lengths, or a repeated share.
    """
    values = [share.reveal() for share in shares]
    if len({len(value) for value in values}) != 1:
        raise BrokenError("shares of different lengths, or none, cannot be combined")
    if len(set(values)) != len(values):
        raise BrokenError("a share was given twice")
    return Secret(reduce(_xor, values))


def split_shamir(secret: Secret, *, shares: int, threshold: int) -> tuple[Secret, ...]:
    """Return ``shares`` shares of ``secret``, each a byte longer than the secret.

    Any ``threshold`` shares give the secret; fewer shares contain no information about the secret.
    """
    if not _LEAST_THRESHOLD <= threshold <= shares <= _MOST_SHARES:
        raise BrokenError(
            f"a secret cannot be split into {shares} shares with the threshold {threshold}"
        )
    length = len(secret)
    coefficients = [_lanes(secrets.token_bytes(length)) for _ in range(threshold - 1)]
    # Highest degree first, for Horner's rule. The secret is the constant term.
    coefficients.append(_lanes(secret.reveal()))
    points = secrets.SystemRandom().sample(range(1, _MOST_SHARES + 1), shares)
    return tuple(
        Secret(_value_at(x, coefficients, length).to_bytes(length) + bytes([x])) for x in points
    )


def combine_shamir(shares: Sequence[Secret]) -> Secret:
    """Return the secret of ``shares`` from ``split_shamir``, by interpolation at 0.

    Fewer shares than the threshold give a wrong secret without an error, so the caller has to check
    the secret. Raises ``BrokenError`` for fewer than 2 shares, different lengths, an x of 0 or a
    repeated x.
    """
    values = [share.reveal() for share in shares]
    if len(values) < _LEAST_THRESHOLD:
        raise BrokenError(
            f"{len(values)} shares are too few, at least {_LEAST_THRESHOLD} are necessary"
        )
    length = len(values[0]) - 1
    if length < 1 or any(len(value) != length + 1 for value in values):
        raise BrokenError("shares that are too short or of different lengths cannot be combined")
    points = [value[-1] for value in values]
    if 0 in points or len(set(points)) != len(points):
        raise BrokenError("a share is repeated or invalid")
    total = 0
    for x, value in zip(points, values, strict=True):
        total ^= _multiply(_lanes(value[:-1]), _weight(x, points), length)
    return Secret(total.to_bytes(length))


def _value_at(x: int, coefficients: Sequence[int], length: int) -> int:
    return reduce(lambda total, c: _multiply(total, x, length) ^ c, coefficients)


def _weight(x: int, points: Sequence[int]) -> int:
    """Return the Lagrange coefficient of ``x`` at 0: the product of p / (p - x).

    p runs over all ``points`` except ``x``. In GF(2^8), minus equals XOR.
    """
    others = [point for point in points if point != x]
    above = reduce(lambda a, b: _multiply(a, b, 1), others, 1)
    below = reduce(lambda a, b: _multiply(a, b ^ x, 1), others, 1)
    return _multiply(above, _inverse(below), 1)


def _inverse(value: int) -> int:
    """Return the inverse of ``value`` in GF(2^8): value^254, because value^255 is 1."""
    power = value
    result = 1
    for _ in range(_BITS - 1):
        power = _multiply(power, power, 1)
        result = _multiply(result, power, 1)
    return result


def _multiply(lanes: int, scalar: int, length: int) -> int:
    """Return ``lanes``, a long integer of ``length`` bytes, with each byte times ``scalar``."""
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


class RecoveryHolder(msgspec.Struct, frozen=True):
    """A holder's recovery key, with the holder's encrypted share.

    ``public_key`` is SubjectPublicKeyInfo DER. ``ciphertext`` is the share under RSA-OAEP (SHA-256,
    MGF1 with SHA-256, empty label). ``share_hash`` is the SHA-256 of the share.
    """

    name: str
    public_key: bytes
    ciphertext: bytes
    share_hash: bytes


class RecoveryMaterial(msgspec.Struct, frozen=True):
    """The stored facts about the shares of a data key. ``holders`` are sorted by name.

    ``threshold`` is the value in the manifest (0: all). ``effective_threshold`` is the number of
    necessary shares (0: no holders, so the state cannot be recovered).
    """

    holders: tuple[RecoveryHolder, ...]
    threshold: int
    effective_threshold: int

    @property
    def ciphertexts(self) -> dict[str, bytes]:
        """The recovery secrets (encrypted shares) by name of the holder, sorted by name."""
        return {holder.name: holder.ciphertext for holder in self.holders}


def effective_threshold(keys: int, threshold: int) -> int:
    """Return the number of necessary shares: ``threshold``, or if 0 the number of ``keys``."""
    return threshold or keys


def recovery_key_problems(
    recovery_keys: Mapping[str, bytes], threshold: int
) -> tuple[Problem, ...]:
    """Return every problem of keys and threshold, each with its place in the manifest.

    ``recovery_keys`` maps names to SubjectPublicKeyInfo DER.

    ``make_recovery`` refuses keys with a problem. A check of a manifest reports the problems early.
    """
    found = [
        Problem(at("RecoveryKeys", name), *reason)
        for name, der in recovery_keys.items()
        if (reason := _key_reason(der)) is not None
    ]
    count = len(recovery_keys)
    where = at("Config", "RecoveryThreshold")
    if threshold and not 2 <= threshold <= count:  # noqa: PLR2004 (a single share is the secret)
        hint = "use 0 for all keys, or 2 up to the number of recovery keys"
        problem = f"is {threshold}, does not fit the number of recovery keys ({count})"
        found.append(Problem(where, problem, hint))
    elif 0 < threshold < count and count > _MOST_SHARES:
        hint = f"use at most {_MOST_SHARES} recovery keys, or 0 for all keys"
        problem = f"is {threshold}, is not possible with {count} recovery keys"
        found.append(Problem(where, problem, hint))
    return tuple(sorted(found))


def make_recovery(
    dek: Secret, recovery_keys: Mapping[str, bytes], threshold: int
) -> RecoveryMaterial:
    """Return the data key ``dek`` split into shares, each encrypted to a recovery key.

    ``dek`` has 32 bytes. ``recovery_keys`` maps names to SubjectPublicKeyInfo DER of RSA keys. A
    single holder gets the data key itself. If all holders are necessary (``threshold`` 0, or their
    number), they get XOR shares of 32 bytes. With a lower ``threshold``, at least 2, they get
    Shamir shares of 33 bytes. Plain shares are not kept. Raises ``InvalidError`` with every problem
    of keys and threshold. Source: ``docs/explanation/cryptography.md``, "Recovery".
    """
    if len(dek) != _DATA_KEY_BYTES:
        raise BrokenError("the data key does not have 32 bytes")
    problems = recovery_key_problems(recovery_keys, threshold)
    if problems:
        raise InvalidError("the recovery keys cannot be used", problems)
    shares = _split(dek, len(recovery_keys), threshold)
    return RecoveryMaterial(
        holders=tuple(
            _holder(name, recovery_keys[name], share)
            for name, share in zip(sorted(recovery_keys), shares, strict=True)
        ),
        threshold=threshold,
        effective_threshold=effective_threshold(len(recovery_keys), threshold),
    )


def _split(dek: Secret, keys: int, threshold: int) -> tuple[Secret, ...]:
    if keys == 0:
        return ()
    if 0 < threshold < keys:
        return split_shamir(dek, shares=keys, threshold=threshold)
    return split_xor(dek, keys)  # a single share is the data key itself


def _holder(name: str, public_key: bytes, share: Secret) -> RecoveryHolder:
    scheme = padding.OAEP(padding.MGF1(hashes.SHA256()), hashes.SHA256(), label=None)
    key = load_der_public_key(public_key)
    if not isinstance(key, rsa.RSAPublicKey):
        raise BrokenError(
            "a recovery key of the state is not an RSA key, although the manifest was checked"
        )
    return RecoveryHolder(
        name=name,
        public_key=public_key,
        ciphertext=key.encrypt(share.reveal(), scheme),
        share_hash=hashlib.sha256(share.reveal()).digest(),
    )


def _key_reason(der: bytes) -> tuple[str, str] | None:
    try:
        key = load_der_public_key(der)
    except LIBRARY_REFUSALS:
        return "is not a public key", "give a PEM block PUBLIC KEY with an RSA key"
    if not isinstance(key, rsa.RSAPublicKey):
        return "is not an RSA key", "give an RSA key of 3072 or 4096 bits"
    if not rsa_keys.SMALLEST <= key.key_size <= rsa_keys.LARGEST_OF_HOLDERS:
        return "is too small or too large", f"give an RSA key of {rsa_keys.SMALLEST} bits or more"
    return None

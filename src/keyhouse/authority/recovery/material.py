"""The shares with which holders of recovery keys can bring a lost data key back."""

import hashlib
from collections.abc import Mapping
from typing import Final

import msgspec
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.serialization import load_der_public_key

from keyhouse.authority.library import LIBRARY_REFUSALS
from keyhouse.authority.recovery.shares import split_shamir, split_xor
from keyhouse.base import rsa_keys
from keyhouse.base.errors import BrokenError, InvalidError, Problem
from keyhouse.base.printable import at
from keyhouse.base.secret import Secret

_DATA_KEY_BYTES: Final = 32
_MOST_SHAMIR: Final = 255


class RecoveryHolder(msgspec.Struct, frozen=True):
    """One recovery key and its share.

    ``public_key`` is SubjectPublicKeyInfo DER; ``ciphertext`` the share under RSA-OAEP (SHA-256,
    MGF1 with SHA-256, empty label); ``share_hash`` the SHA-256 of the share.
    """

    name: str
    public_key: bytes
    ciphertext: bytes
    share_hash: bytes


class RecoveryMaterial(msgspec.Struct, frozen=True):
    """All that stays of the shares of one data key. ``holders`` are sorted by name.

    ``threshold`` is as the manifest has it (0: all), ``effective_threshold`` the number of shares
    that are really needed (0: there are no holders, so the state cannot be recovered).
    """

    holders: tuple[RecoveryHolder, ...]
    threshold: int
    effective_threshold: int

    @property
    def ciphertexts(self) -> dict[str, bytes]:
        """The encrypted shares under their holders' names, sorted by name."""
        return {holder.name: holder.ciphertext for holder in self.holders}


def effective_threshold(keys: int, threshold: int) -> int:
    """Return how many shares are needed: all of them if ``threshold`` is 0."""
    return threshold or keys


def recovery_key_problems(
    recovery_keys: Mapping[str, bytes], threshold: int
) -> tuple[Problem, ...]:
    """Return everything for which ``make_recovery`` would refuse, with places in the manifest."""
    found = [
        Problem(at("RecoveryKeys", name), *reason)
        for name, der in recovery_keys.items()
        if (reason := _key_reason(der)) is not None
    ]
    count = len(recovery_keys)
    where = at("Config", "RecoveryThreshold")
    if threshold and not 2 <= threshold <= count:  # noqa: PLR2004 (one share alone splits nothing)
        hint = "use 0 for all keys, or 2 up to the number of recovery keys"
        found.append(Problem(where, "does not fit the number of recovery keys", hint))
    elif 0 < threshold < count and count > _MOST_SHAMIR:
        hint = f"use at most {_MOST_SHAMIR} recovery keys, or 0 for all of them"
        found.append(Problem(where, "is not possible with so many recovery keys", hint))
    return tuple(sorted(found))


def make_recovery(
    dek: Secret, recovery_keys: Mapping[str, bytes], threshold: int
) -> RecoveryMaterial:
    """Return the data key split among the holders, each share encrypted for its holder.

    ``dek`` has 32 bytes, ``recovery_keys`` maps names to SubjectPublicKeyInfo DER of RSA keys.
    One key gets the data key itself; n keys with threshold 0 or n get XOR shares of 32 bytes;
    with 2 <= threshold < n, Shamir shares of 33 bytes. Plain shares are not kept. Raises
    ``InvalidError`` with every problem of keys and threshold. Source: Client API, "Recovery:
    Material".
    """
    if len(dek) != _DATA_KEY_BYTES:
        raise BrokenError("the data key to be split has not 32 bytes")
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
    return split_xor(dek, keys)  # of one share: the data key itself


def _holder(name: str, public_key: bytes, share: Secret) -> RecoveryHolder:
    scheme = padding.OAEP(padding.MGF1(hashes.SHA256()), hashes.SHA256(), label=None)
    key = load_der_public_key(public_key)
    if not isinstance(key, rsa.RSAPublicKey):
        raise BrokenError("a checked recovery key is not RSA")
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

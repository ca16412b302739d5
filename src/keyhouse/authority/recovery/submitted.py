"""Verifies submitted shares, and combines enough of them into the data key.

A share is submitted with its holder's signature: RSA PKCS #1 v1.5 over SHA-256 of the plain share,
by the recovery key to which the share was encrypted. Before the journal is open, shares and keys
are compared with the recovery index, which may only refuse; afterwards with the recovered manifest.
Source: wire reference of the interface, "Recovery".
"""

import hashlib
import hmac
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Final

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_der_public_key

from keyhouse.authority.library import LIBRARY_REFUSALS
from keyhouse.authority.recovery.index import IndexHolder, RecoveryIndex
from keyhouse.authority.recovery.shares import combine_shamir, combine_xor
from keyhouse.base.errors import BadRequestError, BrokenError, RefusedError
from keyhouse.base.printable import quoted
from keyhouse.base.secret import Secret

_BITS: Final = 4096
_OAEP: Final = padding.OAEP(padding.MGF1(hashes.SHA256()), hashes.SHA256(), label=None)

PLAIN_SIZES: Final = frozenset({16, 32, 33})
"""Bytes of an upload that is a plain share; any other is encrypted. (16: of long ago, no more.)"""

_DATA_KEY_BYTES: Final = 32
_MOST_KEYS: Final = 512


class EphemeralKey:
    """An RSA key of 4096 bits (exponent 65537) that lives in memory only.

    Making one takes up to some seconds of a processor. ``public_key`` is SubjectPublicKeyInfo DER.
    Source: wire reference of the interface, "GET /api/v2/recover/public-key".
    """

    __slots__ = ("_key", "public_key")

    def __init__(self) -> None:
        self._key = rsa.generate_private_key(65537, _BITS)
        self.public_key: Final = self._key.public_key().public_bytes(
            Encoding.DER, PublicFormat.SubjectPublicKeyInfo
        )

    def decrypt(self, ciphertext: bytes) -> Secret:
        """Return what was encrypted: RSA-OAEP, SHA-256 for hash and MGF1, empty label.

        Raises ``BadRequestError``, always with the same words, if it was not encrypted to this key.
        """
        try:
            return Secret(self._key.decrypt(ciphertext, _OAEP))
        except ValueError:
            raise BadRequestError(
                "the share cannot be decrypted",
                fields={"recoverySecret": "is neither a share nor encrypted to the present key"},
                hint="encrypt it to the key that keyhouse recover public-key writes; a restart"
                " makes another",
            ) from None


class ShareRefusedError(RefusedError):
    """The share is not one that is missing. Those accepted before it are kept."""

    code = "share-refused"


class SubmittedShare(msgspec.Struct, frozen=True):
    """A verified share of the holder ``name``, with the signature over it."""

    name: str
    share: Secret
    signature: bytes


def require_signer(index: RecoveryIndex, signature: bytes, taken: Collection[str]) -> IndexHolder:
    """Return the holder of ``index`` whose key made ``signature`` over the share of that holder.

    Only public-key operations, on hashes in the index: a caller without a share cannot make the
    coordinator use its private key. Raises ``ShareRefusedError``.
    """
    for holder in index.holders:
        if signed_by(holder.public_key, signature, holder.share_hash):
            return _missing(holder, taken)
    raise ShareRefusedError(
        "the signature is by none of the recovery keys over its own share",
        hint="sign the decrypted share with the private key that decrypted it"
        " (RSA PKCS #1 v1.5, SHA-256); is it a share of this deployment, and a present one?",
    )


def verify_share(
    index: RecoveryIndex, share: Secret, signature: bytes, taken: Collection[str]
) -> SubmittedShare:
    """Return the plain ``share`` if ``index`` has it and its holder signed it.

    ``taken``: the holders whose shares were accepted already. Raises ``ShareRefusedError``.
    """
    digest = hashlib.sha256(share.reveal()).digest()
    known = (held for held in index.holders if hmac.compare_digest(held.share_hash, digest))
    holder = next(known, None)
    if holder is None:
        raise ShareRefusedError(
            "the share does not belong to this state",
            hint="it may be of another deployment, or from before the recovery keys changed",
        )
    if not signed_by(holder.public_key, signature, digest):
        raise ShareRefusedError(
            f"the signature is not by the recovery key {quoted(holder.name)}, whose share this is",
            hint="sign the decrypted share with the private key that decrypted it"
            " (RSA PKCS #1 v1.5, SHA-256)",
        )
    _missing(holder, taken)
    return SubmittedShare(holder.name, share, signature)


def data_key(index: RecoveryIndex, submitted: Sequence[SubmittedShare]) -> Secret:
    """Return the data key that ``submitted``, as many as the threshold of ``index``, combine to.

    Only opening the journal shows whether it is the right one. Raises ``ShareRefusedError`` if the
    shares cannot be combined.
    """
    shares = [submission.share for submission in submitted]
    if len(shares) != index.threshold:
        raise ShareRefusedError("too few shares to recover")
    try:
        every_one = len(index.holders) == index.threshold
        found = combine_xor(shares) if every_one else combine_shamir(shares)
    except BrokenError:
        found = Secret(b"")
    if len(found) != _DATA_KEY_BYTES:
        raise ShareRefusedError(
            "the shares do not fit together", hint="is recovery_index of this journal?"
        )
    return found


def signed_by(public_key: bytes, signature: bytes, digest: bytes) -> bool:
    """Tell whether ``signature`` is by ``public_key`` (RSA, DER) over what has this SHA-256."""
    key = _public_key(public_key)
    if key is None:
        return False
    try:
        key.verify(signature, digest, padding.PKCS1v15(), Prehashed(hashes.SHA256()))
    except InvalidSignature:
        return False
    return True


def require_signed(
    submitted: Sequence[SubmittedShare], keys: Mapping[str, bytes], hashes_of: Mapping[str, bytes]
) -> None:
    """Require that each share belongs to a different one of ``keys``, and is signed by that key.

    Both map names, to SubjectPublicKeyInfo DER and to the SHA-256 of the share. Raises
    ``ShareRefusedError``.
    """
    if len({submission.name for submission in submitted}) != len(submitted):
        raise ShareRefusedError("two shares are of the same recovery key")
    for submission in submitted:
        digest = hashlib.sha256(submission.share.reveal()).digest()
        key = keys.get(submission.name, b"")
        own = hmac.compare_digest(hashes_of.get(submission.name, b""), digest)
        if not own or not signed_by(key, submission.signature, digest):
            raise ShareRefusedError(
                f"the recovered manifest has no recovery key {quoted(submission.name)}"
                " that signed its share"
            )


def _missing(holder: IndexHolder, taken: Collection[str]) -> IndexHolder:
    if holder.name in taken:
        raise ShareRefusedError(
            f"the share of {quoted(holder.name)} is in already", hint="another one is needed"
        )
    return holder


@lru_cache(maxsize=_MOST_KEYS)
def _public_key(der: bytes) -> rsa.RSAPublicKey | None:
    """Return a recovery key; None for anything else, which a forged index may hold."""
    try:
        key = load_der_public_key(der)
    except LIBRARY_REFUSALS:
        return None
    return key if isinstance(key, rsa.RSAPublicKey) else None

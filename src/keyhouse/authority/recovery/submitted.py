"""Verifies submitted shares, and combines enough of them into the data key.

A holder signs the plain share with the recovery key: RSA PKCS #1 v1.5 with SHA-256. Before the
journal is open, shares and keys are compared with the recovery index, which is untrusted and may
only cause refusals. Afterwards shares and keys are compared with the recovered manifest. Source:
``docs/explanation/cryptography.md``, "Recovery".
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

# Of the RSA key that encrypts submitted shares, chosen: beyond 128 bits of strength.
_BITS: Final = 4096
_OAEP: Final = padding.OAEP(padding.MGF1(hashes.SHA256()), hashes.SHA256(), label=None)

PLAIN_SIZES: Final = frozenset({16, 32, 33})
"""Bytes of an upload that is a plain share; an upload of any other size is encrypted.

Size 16 exists only in deployments of old versions of the interface.
"""

_DATA_KEY_BYTES: Final = 32  # an AES-256 key
_MOST_KEYS: Final = 512  # parsed keys in memory, chosen: more than two manifests with 255 keys have


class EphemeralKey:
    """An RSA key of 4096 bits (exponent 65537), in memory only: holders encrypt shares to this key.

    Key generation takes up to some seconds of a processor. ``public_key`` is SubjectPublicKeyInfo
    DER. Source: ``docs/reference/routes.md``, "Data of version 2".
    """

    __slots__ = ("_key", "public_key")

    def __init__(self) -> None:
        self._key = rsa.generate_private_key(65537, _BITS)
        self.public_key: Final = self._key.public_key().public_bytes(
            Encoding.DER, PublicFormat.SubjectPublicKeyInfo
        )

    def decrypt(self, ciphertext: bytes) -> Secret:
        """Return the plaintext: RSA-OAEP, SHA-256 for hash and MGF1, empty label.

        Raises ``BadRequestError``, always with the same text, for every invalid ciphertext.
        Different texts could be an oracle for an attacker.
        """
        try:
            return Secret(self._key.decrypt(ciphertext, _OAEP))
        except ValueError:
            raise BadRequestError(
                "the share cannot be decrypted",
                fields={"recoverySecret": "is neither a share nor encrypted to the present key"},
                hint="encrypt the share to the key that keyhouse recover public-key returns now:"
                " each restart makes a new key",
            ) from None


class ShareRefusedError(RefusedError):
    """The coordinator refuses a submitted share. Shares that were accepted before stay accepted."""

    code = "share-refused"
    next_step = "submit a share of this state, signed by its holder"


class SubmittedShare(msgspec.Struct, frozen=True):
    """A verified share of the holder ``name``, with the signature over the share."""

    name: str
    share: Secret
    signature: bytes


def require_signer(
    index: RecoveryIndex, signature: bytes, accepted: Collection[str]
) -> IndexHolder:
    """Return the holder in ``index`` whose key made ``signature`` over this holder's share.

    Call this function before decrypting a share. The index has the hashes of shares, so the check
    needs no private key: a client without a share cannot cause costly decryptions. ``accepted``:
    the names of holders whose shares were accepted before. Raises ``ShareRefusedError``, also for
    such a holder.
    """
    for holder in index.holders:
        if signed_by(holder.public_key, signature, holder.share_hash):
            return _require_missing(holder, accepted)
    raise ShareRefusedError(
        "the signature does not verify with the recovery key and the share of any holder",
        hint="sign the decrypted share with the private key that decrypted it"
        " (RSA PKCS #1 v1.5, SHA-256); use a present share of this deployment",
    )


def verify_share(
    index: RecoveryIndex, share: Secret, signature: bytes, accepted: Collection[str]
) -> SubmittedShare:
    """Return the plain ``share`` after two checks against ``index``.

    The index must have the hash of the share, and ``signature`` must be by the holder of this hash.
    ``accepted``: the names of holders whose shares were accepted before. Raises
    ``ShareRefusedError``, also for such a holder.
    """
    digest = hashlib.sha256(share.reveal()).digest()
    known = (held for held in index.holders if hmac.compare_digest(held.share_hash, digest))
    holder = next(known, None)
    if holder is None:
        raise ShareRefusedError(
            "the share does not belong to this state",
            hint="use a share of this deployment, made after the last change of the recovery keys",
        )
    if not signed_by(holder.public_key, signature, digest):
        raise ShareRefusedError(
            f"the recovery key {quoted(holder.name)} of this share did not make the signature",
            hint="sign the decrypted share with the private key that decrypted it"
            " (RSA PKCS #1 v1.5, SHA-256)",
        )
    _require_missing(holder, accepted)
    return SubmittedShare(holder.name, share, signature)


def data_key(index: RecoveryIndex, submitted: Sequence[SubmittedShare]) -> Secret:
    """Return the data key from ``submitted``, exactly as many shares as ``index`` requires.

    Wrong shares can give a wrong key: only opening the journal proves the key. Raises
    ``ShareRefusedError`` for too few shares, and for shares that cannot be combined.
    """
    shares = [submission.share for submission in submitted]
    if len(shares) != index.threshold:
        raise ShareRefusedError(
            f"{len(shares)} shares were submitted; a recovery needs {index.threshold}",
            hint="submit the shares of further holders",
        )
    try:
        is_xor = len(index.holders) == index.threshold
        combined = combine_xor(shares) if is_xor else combine_shamir(shares)
    except BrokenError:
        combined = Secret(b"")
    if len(combined) != _DATA_KEY_BYTES:
        raise ShareRefusedError(
            "the submitted shares do not fit together: no data key results from these shares",
            hint="restore journal.db and recovery_index from one backup; begin the recovery again",
        )
    return combined


def signed_by(public_key: bytes, signature: bytes, digest: bytes) -> bool:
    """Return whether ``public_key`` (RSA, DER) made ``signature`` over the SHA-256 ``digest``."""
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
    """Verify the shares against the recovered manifest, after the recovery has opened the journal.

    Each share must belong to a different recovery key, and this key must have signed the share.
    ``keys`` maps names of holders to SubjectPublicKeyInfo DER, ``hashes_of`` to the SHA-256 of the
    share. Raises ``ShareRefusedError``.
    """
    if len({submission.name for submission in submitted}) != len(submitted):
        raise ShareRefusedError(
            "two submitted shares belong to the same recovery key, must belong to different keys",
            hint="submit shares of different holders",
        )
    for submission in submitted:
        digest = hashlib.sha256(submission.share.reveal()).digest()
        key = keys.get(submission.name, b"")
        own = hmac.compare_digest(hashes_of.get(submission.name, b""), digest)
        if not own or not signed_by(key, submission.signature, digest):
            raise ShareRefusedError(
                f"the share of {quoted(submission.name)} is not the share in the recovered state,"
                " or is not signed with the recovery key in the recovered manifest"
            )


def _require_missing(holder: IndexHolder, accepted: Collection[str]) -> IndexHolder:
    if holder.name in accepted:
        raise ShareRefusedError(
            f"the share of {quoted(holder.name)} was submitted before",
            hint="submit the share of another holder",
        )
    return holder


@lru_cache(maxsize=_MOST_KEYS)
def _public_key(der: bytes) -> rsa.RSAPublicKey | None:
    """Return the recovery key ``der``; None for invalid bytes, possible in a forged index."""
    try:
        key = load_der_public_key(der)
    except LIBRARY_REFUSALS:
        return None
    return key if isinstance(key, rsa.RSAPublicKey) else None

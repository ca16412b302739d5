"""The unencrypted index beside the journal, for a recovery.

The index is untrusted, because the host can replace the file. So a check against the index may only
refuse a share, a signature or a key. Each accepted share is checked again, against the recovered
manifest.

Layout, all integers big-endian, ``bytes`` with a length of 4 bytes in front::
    version             1 byte, 1
    store id            16 bytes
    epoch               8 bytes
    effective threshold 2 bytes
    number of holders   2 bytes
    holders, by name    name (UTF-8), public key (SubjectPublicKeyInfo DER), SHA-256 of the share
    root certificate    bytes, DER
    fingerprint         32 bytes, SHA-256 of the manifest
    signature           bytes, ECDSA by the root over the context and all of the above
    MAC                 32 bytes, HMAC-SHA256 over the context and all of the above
"""

import hashlib
import hmac
from typing import Final

import msgspec

from keyhouse.authority.keys import (
    RECOVERY_INDEX_CONTEXT,
    CoordinatorKeys,
    is_signed_by_root,
    sign_recovery_index,
)
from keyhouse.authority.library import LIBRARY_REFUSALS
from keyhouse.authority.recovery.shares import RecoveryMaterial
from keyhouse.base.byte_reader import ByteReader
from keyhouse.base.errors import BrokenError, KeyhouseError
from keyhouse.base.secret import Secret

_VERSION: Final = 1  # the present format of the index
_STORE_ID: Final = 16  # bytes, as in the journal: 128 random bits never repeat
_DIGEST: Final = 32  # bytes of SHA-256
_MAC_CONTEXT: Final = b"keyhouse recovery index mac v1\0"
_LONGEST: Final = 64 * 1024 * 1024  # bytes, chosen: more than an index with the maximum of holders
_MOST_HOLDERS: Final = 2**16 - 1  # the format counts holders in 16 bits


class IndexDamagedError(KeyhouseError):
    """The recovery index is damaged, or belongs to a different deployment."""

    code = "recovery-index-damaged"


class IndexHolder(msgspec.Struct, frozen=True):
    """A holder's name and recovery key (SubjectPublicKeyInfo DER), and the SHA-256 of the share."""

    name: str
    public_key: bytes
    share_hash: bytes


class RecoveryIndex(msgspec.Struct, frozen=True):
    """The content of the index: the facts that a recovery needs before the journal is open.

    ``store_id`` has 16 bytes, ``manifest_fingerprint`` 32, ``root_cert`` is DER. ``threshold`` is
    the number of necessary shares, 0 if recovery is impossible.
    """

    store_id: bytes
    epoch: int
    threshold: int
    holders: tuple[IndexHolder, ...]
    root_cert: bytes
    manifest_fingerprint: bytes


class SealedIndex(msgspec.Struct, frozen=True):
    """A parsed index, signed by the root whose certificate is in the index itself.

    ``mac`` is the MAC over the bytes ``authenticated``. ``check_index_mac`` checks the MAC, after
    the data key is known.
    """

    index: RecoveryIndex
    authenticated: bytes
    mac: bytes


def index_of(
    material: RecoveryMaterial,
    keys: CoordinatorKeys,
    manifest: bytes,
    *,
    store_id: bytes,
    epoch: int,
) -> RecoveryIndex:
    """Return the recovery index for ``material``, the shares of an epoch's data key.

    ``store_id`` and ``epoch`` identify the state. ``manifest``: the bytes of the manifest in force.
    """
    return RecoveryIndex(
        store_id=store_id,
        epoch=epoch,
        threshold=material.effective_threshold,
        holders=tuple(
            IndexHolder(holder.name, holder.public_key, holder.share_hash)
            for holder in material.holders
        ),
        root_cert=keys.root_cert,
        manifest_fingerprint=hashlib.sha256(manifest).digest(),
    )


def recovery_index(index: RecoveryIndex, *, keys: CoordinatorKeys, mac_key: Secret) -> bytes:
    """Return the bytes of the file: ``index``, a signature by the root key, and a MAC.

    ``mac_key`` is derived from the data key of the epoch. Without the data key a reader cannot
    check the MAC. Such a reader uses the index only to refuse shares
    (``docs/explanation/cryptography.md``, "Recovery"). The same index, keys and MAC key give the
    same bytes.
    """
    if index.root_cert != keys.root_cert:
        raise BrokenError("a recovery index names another root than the root that signs the index")
    body = _encode(index)
    signed = body + _framed(sign_recovery_index(keys, body))
    return signed + _mac(signed, mac_key)


def read_recovery_index(raw: bytes) -> SealedIndex:
    """Return the index in the file ``raw`` after a check of its form and its signature.

    The signature proves that the parts belong together. But the root certificate comes from the
    file itself, so the file can be from any deployment. Only ``check_index_mac`` and the recovered
    journal prove that the index belongs to this deployment. Raises ``IndexDamagedError``.
    """
    if len(raw) > _LONGEST:
        problem = f"the recovery index is too long: {len(raw)} bytes, must have at most {_LONGEST}"
        raise IndexDamagedError(problem, hint=_HINT)
    try:
        return _read(raw)
    except (*LIBRARY_REFUSALS, BrokenError):
        raise IndexDamagedError(
            "the recovery index does not have the format of this file", hint=_HINT
        ) from None


def check_index_mac(sealed: SealedIndex, mac_key: Secret) -> RecoveryIndex:
    """Return the index if its MAC was made with ``mac_key``, or raise ``IndexDamagedError``."""
    if not hmac.compare_digest(_mac(sealed.authenticated, mac_key), sealed.mac):
        raise IndexDamagedError("the recovery index does not belong to this data key", hint=_HINT)
    return sealed.index


_HINT: Final = "restore the file recovery_index from the backup of this journal"


def _encode(index: RecoveryIndex) -> bytes:
    names = [holder.name for holder in index.holders]
    fixed = (len(index.store_id), len(index.manifest_fingerprint))
    if fixed != (_STORE_ID, _DIGEST) or names != sorted(set(names)) or len(names) > _MOST_HOLDERS:
        raise BrokenError("a recovery index is not in its canonical form")
    parts = [
        bytes([_VERSION]),
        index.store_id,
        index.epoch.to_bytes(8),
        index.threshold.to_bytes(2),
        len(names).to_bytes(2),
    ]
    for holder in index.holders:
        if len(holder.share_hash) != _DIGEST:
            raise BrokenError("the hash of a share does not have 32 bytes")
        parts += [_framed(holder.name.encode()), _framed(holder.public_key), holder.share_hash]
    parts += [_framed(index.root_cert), index.manifest_fingerprint]
    return b"".join(parts)


def _read(raw: bytes) -> SealedIndex:
    reader = ByteReader(raw, "big")
    if reader.number(1, "version") != _VERSION:
        raise IndexDamagedError(
            "the recovery index has an unknown version",
            hint="use the version of Keyhouse that wrote the file, or a newer version",
        )
    index = _read_body(reader)
    body = raw[: reader.position]
    signature = reader.framed(4, "signature")
    authenticated = raw[: reader.position]
    mac = reader.read(_DIGEST, "MAC")
    reader.finish("MAC")
    # A second encoding detects a wrong order, repeated names and every other uncanonical form.
    if _encode(index) != body or not _is_threshold(index):
        raise ValueError("not in canonical form")
    if not is_signed_by_root(index.root_cert, signature, RECOVERY_INDEX_CONTEXT + body):
        raise IndexDamagedError(
            "the recovery index is not signed by the root that the file names", hint=_HINT
        )
    return SealedIndex(index, authenticated, mac)


def _read_body(reader: ByteReader) -> RecoveryIndex:
    store_id = reader.read(_STORE_ID, "store id")
    epoch = reader.number(8, "epoch")
    threshold = reader.number(2, "threshold")
    holders = tuple(_read_holder(reader) for _ in range(reader.number(2, "number of holders")))
    return RecoveryIndex(
        store_id=store_id,
        epoch=epoch,
        threshold=threshold,
        holders=holders,
        root_cert=reader.framed(4, "root certificate"),
        manifest_fingerprint=reader.read(_DIGEST, "fingerprint"),
    )


def _read_holder(reader: ByteReader) -> IndexHolder:
    return IndexHolder(
        name=reader.framed(4, "name").decode(),
        public_key=reader.framed(4, "public key"),
        share_hash=reader.read(_DIGEST, "share hash"),
    )


def _is_threshold(index: RecoveryIndex) -> bool:
    count = len(index.holders)
    return index.threshold == count or 2 <= index.threshold < count  # noqa: PLR2004 (of Shamir)


def _framed(value: bytes) -> bytes:
    return len(value).to_bytes(4) + value


def _mac(signed: bytes, mac_key: Secret) -> bytes:
    return hmac.digest(mac_key.reveal(), _MAC_CONTEXT + signed, hashlib.sha256)

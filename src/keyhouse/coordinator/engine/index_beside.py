"""The recovery index that lies beside the journal, for one epoch of it."""

import hashlib

from keyhouse.authority import CoordinatorKeys, RecoveryMaterial, index_of, recovery_index
from keyhouse.base.secret import Secret

__all__ = ["index_beside"]


def index_beside(
    keys: CoordinatorKeys,
    manifest: bytes,
    recovery: RecoveryMaterial,
    *,
    store_id: bytes,
    epoch: int,
    mac_key: Secret,
) -> bytes:
    """Return the bytes of the file: signed by the root, under a MAC key of the epoch's data key.

    It can be read without the data key, and may only refuse (security rules, "Recovery").
    """
    index = index_of(
        recovery,
        keys,
        store_id=store_id,
        epoch=epoch,
        manifest_fingerprint=hashlib.sha256(manifest).digest(),
    )
    return recovery_index(index, keys=keys, mac_key=mac_key)

"""The recovery index of one epoch, as a state determines it; its file is beside the journal."""

import hashlib

from keyhouse.authority import (
    CoordinatorKeys,
    RecoveryIndex,
    RecoveryMaterial,
    index_of,
    recovery_index,
)
from keyhouse.base.secret import Secret


def expected_index(
    keys: CoordinatorKeys,
    manifest: bytes,
    recovery: RecoveryMaterial,
    *,
    store_id: bytes,
    epoch: int,
) -> RecoveryIndex:
    """Return what the index of ``epoch`` says under this manifest."""
    return index_of(
        recovery,
        keys,
        store_id=store_id,
        epoch=epoch,
        manifest_fingerprint=hashlib.sha256(manifest).digest(),
    )


def encode_index(
    keys: CoordinatorKeys,
    manifest: bytes,
    recovery: RecoveryMaterial,
    *,
    store_id: bytes,
    epoch: int,
    mac_key: Secret,
) -> bytes:
    """Return the content of the file, signed by the root key and with a MAC.

    ``mac_key`` is derived from the data key of the epoch. The index can be read without the data
    key, and it may only refuse (security rules, "Recovery").
    """
    index = expected_index(keys, manifest, recovery, store_id=store_id, epoch=epoch)
    return recovery_index(index, keys=keys, mac_key=mac_key)

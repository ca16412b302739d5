"""Derive keys from the data key (DEK), a separate key for each use and epoch."""

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from keyhouse.base.secret import Secret
from keyhouse.journal.store.protocol import STORE_ID_SIZE

DEK_SIZE = 32  # bytes of an AES-256 key


def record_key(dek: Secret, store_id: bytes, epoch: int) -> Secret:
    """Return the 32-byte AES key of the records of ``epoch``."""
    return Secret(_derive(dek, store_id, epoch, b"keyhouse journal v1"))


def index_mac_key(dek: Secret, store_id: bytes, epoch: int) -> Secret:
    """Return the 32-byte HMAC key of the recovery index of ``epoch``."""
    return Secret(_derive(dek, store_id, epoch, b"keyhouse index mac v1"))


def key_check(dek: Secret, store_id: bytes, epoch: int) -> bytes:
    """Return 32 public bytes that identify this data key and reveal nothing else about it."""
    return _derive(dek, store_id, epoch, b"keyhouse key check v1")


def _derive(dek: Secret, store_id: bytes, epoch: int, info: bytes) -> bytes:
    if len(dek) != DEK_SIZE or len(store_id) != STORE_ID_SIZE:
        raise ValueError("a data key has 32 bytes, a store id 16")
    salt = store_id + epoch.to_bytes(8, "big")
    return HKDF(algorithm=SHA256(), length=32, salt=salt, info=info).derive(dek.reveal())

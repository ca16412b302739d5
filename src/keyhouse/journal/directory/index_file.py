"""The file ``recovery_index``: bytes for the holders of recovery keys, kept for one epoch.

::

    0   magic "KEYHINDX"
    8   format version (1)
    9   store id, 16 bytes
    25  epoch, u64 big-endian
    33  content, which this room does not read
    -32 SHA-256 of all before it

Store and epoch say whether the file belongs to the journal beside it: during a switch to a new
epoch there are two, and the journal decides which one counts.
"""

import hashlib
import struct

import msgspec

from keyhouse.journal.store.protocol import StoreDamaged, StoreNewer

__all__ = ["FILE_LIMIT", "IndexFile"]

FORMAT_VERSION = 1
FILE_LIMIT = 16 * 1024 * 1024  # bytes
_LAYOUT = struct.Struct(">8sB16sQ")
_MAGIC = b"KEYHINDX"
_DIGEST_SIZE = 32


class IndexFile(msgspec.Struct, frozen=True):
    """The file's parts. Nothing proves them: an index may only make something be refused."""

    store_id: bytes
    epoch: int
    content: bytes

    def encode(self) -> bytes:
        """Return the bytes of the file."""
        body = _LAYOUT.pack(_MAGIC, FORMAT_VERSION, self.store_id, self.epoch) + self.content
        return body + hashlib.sha256(body).digest()

    @classmethod
    def decode(cls, raw: bytes, *, name: str) -> "IndexFile":
        """Return the parts; raise ``StoreDamaged`` or ``StoreNewer``, which name the file."""
        body, digest = raw[:-_DIGEST_SIZE], raw[-_DIGEST_SIZE:]
        if len(body) < _LAYOUT.size or hashlib.sha256(body).digest() != digest:
            raise _damaged(name)
        magic, version, store_id, epoch = _LAYOUT.unpack(body[: _LAYOUT.size])
        if magic != _MAGIC or not version:
            raise _damaged(name)
        if version > FORMAT_VERSION:
            raise StoreNewer(
                f"{name} has format {version}, this version of Keyhouse reads {FORMAT_VERSION}",
                hint="start the version of Keyhouse that wrote it, or a later one",
            )
        return cls(store_id, epoch, body[_LAYOUT.size :])


def _damaged(name: str) -> StoreDamaged:
    return StoreDamaged(f"{name} is damaged", hint="restore it from a backup")

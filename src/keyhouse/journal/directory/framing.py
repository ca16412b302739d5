"""The frame of a small binary file: magic, format version, and SHA-256 of all before it.

The digest has no key: it detects damage, and proves nothing.
"""

import hashlib

from keyhouse.journal.store.protocol import StoreDamagedError, StoreNewerError

_DIGEST_SIZE = 32


def framed(body: bytes) -> bytes:
    """Return the bytes of the file; ``body`` begins with magic and version."""
    return body + hashlib.sha256(body).digest()


def unframed(
    raw: bytes, magic: bytes, version: int, *, name: str, damaged: StoreDamagedError
) -> bytes:
    """Return the body of a file in format ``version``, with magic and version.

    Raises ``damaged``, or ``StoreNewerError`` with the ``name`` of the file.
    """
    body, digest = raw[:-_DIGEST_SIZE], raw[-_DIGEST_SIZE:]
    if len(body) <= len(magic) or not body.startswith(magic):
        raise damaged
    if hashlib.sha256(body).digest() != digest:
        raise damaged
    found = body[len(magic)]
    if found > version:
        raise StoreNewerError(
            f"{name} has format {found}, this version of Keyhouse reads {version}",
            hint="start the version of Keyhouse that wrote it, or a later one",
        )
    if found != version:
        raise damaged
    return body

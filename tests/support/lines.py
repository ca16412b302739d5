"""Lines of a root, as genuine code writes lines."""

import hashlib
from collections.abc import Iterable

import msgspec

from keyhouse.transparency.line import (
    Adopted,
    Code,
    CodeEntry,
    Created,
    Entry,
    ManifestEntry,
    encode_entry,
    hash_of,
)

__all__ = ["CODE", "chained", "line_of"]

CODE = Code(tee="sgx", unique="ab" * 32, signer="cd" * 32, product=1, svn=2, vm="", version="0.2.0")
_TIME = 1_790_000_000_000_000


def chained(entries: Iterable[Entry]) -> tuple[bytes, ...]:
    """Return the encoded ``entries``; each entry has the hash of the preceding entry."""
    raw: list[bytes] = []
    for entry in entries:
        before = hash_of(raw[-1]).hex() if raw else ""
        raw.append(encode_entry(msgspec.structs.replace(entry, previous=before)))
    return tuple(raw)


def line_of(root_der: bytes, *manifests: bytes, adopted: bool = False) -> tuple[bytes, ...]:
    """Return the line of a root under which ``manifests`` were in force in turn.

    ``adopted``: the root is older than its line.
    """
    root = hashlib.sha256(root_der).hexdigest()
    first, *others = (hashlib.sha256(each).hexdigest() for each in manifests)
    began = Adopted if adopted else Created
    return chained(
        [
            began(previous="", time=_TIME, root=root, manifest=first, code=CODE),
            CodeEntry(previous="", time=_TIME, code=CODE),
            *(ManifestEntry(previous="", time=_TIME, manifest=each, code=CODE) for each in others),
        ]
    )

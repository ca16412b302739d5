"""The line of a root key: every manifest that was ever in force under it, in order, as a value.

Who has the data key of a deployment can read and rewrite its journal, so a root key is as secret
as the least careful manifest that was ever in force under it. The line lists these manifests, with
the code that made them take effect. ``docs/decisions/0055-the-line-of-a-root.md`` has the reasons.

An entry is one JSON object in its canonical form (RFC 8785). Its ``previous`` is the SHA-256 of the
bytes of the entry before it, in hex; empty in the first entry. So the hash of the last entry names
the whole line. The first entry is ``created`` or ``adopted``, and no later one is.

``created`` and ``manifest`` count only with a quote over the hash of the entry, by accepted code
(``attestation.quote.binding.entry_report_data``). The other entries inform: hostile code that has
the data key can leave them out, so a verifier draws no conclusion from a missing entry.
"""

import hashlib
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from keyhouse.transparency.canonical import (
    Hash,
    HashOrNone,
    Line as Text,
    Name,
    Whole,
    canonical,
    read_canonical,
)
from keyhouse.transparency.errors import LogInvalidError

MOST_ENTRIES: Final = 4_096
"""Entries of the longest line. Each costs some 400 bytes of the state."""

ENTRY_BYTES: Final = 8_192
"""Bytes of the longest entry."""

_Number = Annotated[int, Meta(ge=0, le=2**16 - 1)]


class Code(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The identity of code as its quotes state it, and the version that it states itself.

    An enclave has the four values of SGX. A confidential VM has ``vm``: SHA-256 of its identity.
    """

    tee: Literal["sgx", "tdx", "snp"]
    unique: HashOrNone
    signer: HashOrNone
    product: _Number
    svn: _Number
    vm: HashOrNone
    version: Text


class _Common(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", forbid_unknown_fields=True
):
    previous: HashOrNone
    time: Whole  # microseconds since 1970, as the coordinator claims
    v: Literal[1] = 1


class Created(_Common, frozen=True, tag="created"):
    """Code made the root key, and took the first manifest."""

    root: Hash  # of the root certificate, DER
    manifest: Hash  # of the bytes of the manifest: the fingerprint
    code: Code


class Adopted(_Common, frozen=True, tag="adopted"):
    """The operator vouches for a root of before the line: nothing shows who made it, or when.

    ``manifest`` is the one in force when the line began.
    """

    root: Hash
    manifest: Hash
    code: Code


class ManifestEntry(_Common, frozen=True, tag="manifest"):
    """Code applied an update: this manifest took effect."""

    manifest: Hash
    code: Code


class CodeEntry(_Common, frozen=True, tag="code"):
    """Code served this root for the first time."""

    code: Code


class RecoveredEntry(_Common, frozen=True, tag="recovered"):
    """The shares of these holders restored the state. May be several entries."""

    holders: tuple[Name, ...]  # as ``leaf.name_in_leaf`` writes them


class LogEntry(_Common, frozen=True, tag="log"):
    """A new transparency log took the place of the one before."""

    origin: Text


Entry = Created | Adopted | ManifestEntry | CodeEntry | RecoveredEntry | LogEntry

First = Created | Adopted

Effective = Created | Adopted | ManifestEntry
"""The entries that name a manifest which took effect."""


@cache
def _decoder() -> "msgspec.json.Decoder[Entry]":
    return msgspec.json.Decoder(Entry)


def encode_entry(entry: Entry) -> bytes:
    """Return the bytes of ``entry``, which a reader accepts as an equal entry.

    Raises ``LogInvalidError`` for values out of their bounds.
    """
    raw = canonical(entry)
    if read_entry(raw) != entry:
        raise LogInvalidError("an entry of the line would be read as another one")
    return raw


def read_entry(raw: bytes) -> Entry:
    """Return the entry in ``raw``. Raises ``LogInvalidError``, which repeats nothing of it."""
    entry = read_canonical(raw, _decoder()) if len(raw) <= ENTRY_BYTES else None
    if entry is None:
        raise LogInvalidError(
            "an entry of the line is not of a kind that this version knows, or not in its canonical"
            " form",
            hint="if the coordinator is of a newer version, use that version",
        )
    return entry


def hash_of(raw: bytes) -> bytes:
    """Return the hash of an entry, 32 bytes: what the next entry and its quote name it by."""
    return hashlib.sha256(raw).digest()


class RootLine(msgspec.Struct, frozen=True):
    """The line of one root, from its first entry on. Made by ``chained``, so it is sound."""

    raw: tuple[bytes, ...]
    entries: tuple[Entry, ...]

    @property
    def first(self) -> First:
        """The entry that the line begins with."""
        entry = self.entries[0]
        assert isinstance(entry, Created | Adopted)  # noqa: S101 chained has checked it
        return entry

    @property
    def last_hash(self) -> bytes:
        """The hash of the last entry, which names the whole line."""
        return hash_of(self.raw[-1])

    @property
    def manifests(self) -> tuple[str, ...]:
        """The fingerprints of all manifests, in the order in which they took effect."""
        return tuple(each.manifest for _, each in self.effective())

    def effective(self) -> Iterator[tuple[int, Effective]]:
        """Yield each entry that names a manifest, with its number from 0 on."""
        for number, entry in enumerate(self.entries):
            if isinstance(entry, Created | Adopted | ManifestEntry):
                yield number, entry

    def continues(self, number: int, last_hash: bytes) -> bool:
        """Tell whether this line begins with the ``number`` entries whose last has that hash."""
        return 0 < number <= len(self.raw) and hash_of(self.raw[number - 1]) == last_hash


def read_line(raw: Sequence[bytes], root_der: bytes) -> RootLine:
    """Return the line of the root certificate ``root_der`` (DER) that these entries make.

    Its first entry is for this root; else as ``chained``. Raises ``LogInvalidError``.
    """
    line = chained(raw)
    if line.first.root != hashlib.sha256(root_der).hexdigest():
        raise LogInvalidError("the line is of another root")
    return line


def chained(raw: Sequence[bytes]) -> RootLine:
    """Return the line that these entries make, of any root.

    Each entry is read strictly and names the hash of the entry before it. Only the first is
    ``created`` or ``adopted``. The quotes of the entries are not verified.

    Raises ``LogInvalidError``.
    """
    if not 0 < len(raw) <= MOST_ENTRIES:
        raise LogInvalidError(f"a line has {len(raw)} entries, must have 1 to {MOST_ENTRIES}")
    entries = tuple(map(read_entry, raw))
    before = ""
    for number, (each, entry) in enumerate(zip(raw, entries, strict=True)):
        if entry.previous != before:
            raise LogInvalidError(f"entry {number} of the line does not follow the one before it")
        if isinstance(entry, Created | Adopted) is (number > 0):
            raise LogInvalidError(f"entry {number} of the line is of a kind that cannot be there")
        before = hash_of(each).hex()
    return RootLine(tuple(raw), entries)

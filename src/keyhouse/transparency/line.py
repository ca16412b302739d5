"""The line of a root key: every manifest that was ever in force under this key, in order.

The data key of a deployment permits reading and rewriting its journal. So the root key is as secret
as the least careful manifest that was ever in force. The line lists these manifests, with the code
that made each take effect. ``docs/decisions/0055-the-line-of-a-root.md`` has the reasons.

An entry is a JSON object in canonical form (RFC 8785). Its ``previous`` is the SHA-256 of the
previous entry's bytes, in hex; empty in the first entry. So the hash of the last entry identifies
the whole line. Only the first entry has the kind ``created`` or ``adopted``.

``created`` and ``manifest`` count only with a quote by accepted code over the hash of the entry
(``attestation.quote.binding.entry_report_data``). Other entries only inform. Hostile code with the
data key can omit them, so a verifier draws no conclusion from a missing entry.
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
"""Maximum number of entries in a line. An entry takes some 400 bytes of the state."""

ENTRY_BYTES: Final = 8_192
"""Maximum length in bytes of an entry."""

_Number = Annotated[int, Meta(ge=0, le=2**16 - 1)]


class Code(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The identity of code as its quotes state it, and the version that the code claims.

    An enclave has the four values of SGX. A confidential VM has ``vm``: SHA-256 of its identity.
    """

    tee: Literal["sgx", "tdx", "snp"]
    unique: HashOrNone
    signer: HashOrNone
    product: _Number
    svn: _Number
    vm: HashOrNone
    version: Text


class _EntryFields(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", forbid_unknown_fields=True
):
    previous: HashOrNone
    time: Whole  # microseconds since 1970, as the coordinator claims
    v: Literal[1] = 1


class Created(_EntryFields, frozen=True, tag="created"):
    """The code ``code`` made the root key, and accepted the first manifest."""

    root: Hash  # of the root certificate, DER
    manifest: Hash  # the fingerprint: of the bytes of the manifest
    code: Code


class Adopted(_EntryFields, frozen=True, tag="adopted"):
    """The operator vouches for a root that is older than its line. Nothing proves its origin.

    ``manifest`` was in force when the line began.
    """

    root: Hash
    manifest: Hash
    code: Code


class ManifestEntry(_EntryFields, frozen=True, tag="manifest"):
    """The code ``code`` applied an update, and ``manifest`` took effect."""

    manifest: Hash
    code: Code


class CodeEntry(_EntryFields, frozen=True, tag="code"):
    """The code ``code`` served this root for the first time."""

    code: Code


class RecoveredEntry(_EntryFields, frozen=True, tag="recovered"):
    """The shares of ``holders`` restored the state. Very many holders need several entries."""

    holders: tuple[Name, ...]  # as ``leaf.name_in_leaf`` writes them


class NewLogEntry(_EntryFields, frozen=True, tag="log"):
    """A new transparency log replaced the former log."""

    origin: Text


Entry = Created | Adopted | ManifestEntry | CodeEntry | RecoveredEntry | NewLogEntry

First = Created | Adopted

Effective = Created | Adopted | ManifestEntry
"""The entries about a manifest that took effect."""


@cache
def _decoder() -> "msgspec.json.Decoder[Entry]":
    return msgspec.json.Decoder(Entry)


def encode_entry(entry: Entry) -> bytes:
    """Return the canonical bytes of ``entry``, after a check that they decode to an equal entry.

    Raises ``LogInvalidError`` for a value out of its bounds.
    """
    raw = canonical(entry)
    if read_entry(raw) != entry:
        raise LogInvalidError("an entry of the line does not decode to the same value")
    return raw


def read_entry(raw: bytes) -> Entry:
    """Return the entry in ``raw``. Raises ``LogInvalidError``, which repeats no part of ``raw``."""
    entry = read_canonical(raw, _decoder()) if len(raw) <= ENTRY_BYTES else None
    if entry is None:
        raise LogInvalidError(
            "an entry of the line has an unknown kind or field, or is not in its canonical form",
            hint="use the version of the coordinator, if that version is newer",
        )
    return entry


def hash_of(raw: bytes) -> bytes:
    """Return the hash of the entry ``raw``, 32 bytes.

    The next entry contains this hash, and the entry's quote is bound to the hash.
    """
    return hashlib.sha256(raw).digest()


class RootLine(msgspec.Struct, frozen=True):
    """The line of a root: its entries as bytes and decoded. Made by ``chained``, after its checks.

    The quotes of the entries are not verified.
    """

    raw: tuple[bytes, ...]
    entries: tuple[Entry, ...]

    @property
    def first(self) -> First:
        """The first entry of the line."""
        entry = self.entries[0]
        assert isinstance(entry, Created | Adopted)  # noqa: S101 chained has checked it
        return entry

    @property
    def last_hash(self) -> bytes:
        """The hash of the last entry, which identifies the whole line."""
        return hash_of(self.raw[-1])

    @property
    def manifests(self) -> tuple[str, ...]:
        """The fingerprints of all manifests, in the order in which they took effect."""
        return tuple(each.manifest for _, each in self.effective())

    def effective(self) -> Iterator[tuple[int, Effective]]:
        """Yield each entry about a manifest, with its number in the line, from 0."""
        for number, entry in enumerate(self.entries):
            if isinstance(entry, Created | Adopted | ManifestEntry):
                yield number, entry

    def continues(self, number: int, last_hash: bytes) -> bool:
        """Return whether this line begins with a known line, to detect a replaced history.

        The known line has ``number`` entries, and its last entry has the hash ``last_hash``.
        """
        return 0 < number <= len(self.raw) and hash_of(self.raw[number - 1]) == last_hash


def read_line(raw: Sequence[bytes], root_der: bytes) -> RootLine:
    """Return the line of the root certificate ``root_der`` (DER) with the entries ``raw``.

    The first entry must name this root. For further checks, and for the error, see ``chained``.
    """
    line = chained(raw)
    if line.first.root != hashlib.sha256(root_der).hexdigest():
        raise LogInvalidError("the line belongs to a different root")
    return line


def chained(raw: Sequence[bytes]) -> RootLine:
    """Return the line with the entries ``raw``, of any root.

    Each entry must be canonical and have the hash of the previous entry. Only the first must be
    ``created`` or ``adopted``. The quotes of the entries are not verified.

    Raises ``LogInvalidError``.
    """
    if not 0 < len(raw) <= MOST_ENTRIES:
        raise LogInvalidError(f"the line has {len(raw)} entries; it must have 1 to {MOST_ENTRIES}")
    entries = tuple(map(read_entry, raw))
    before = ""
    for number, (each, entry) in enumerate(zip(raw, entries, strict=True)):
        if entry.previous != before:
            raise LogInvalidError(
                f"entry {number} of the root's line does not contain the hash of the previous entry"
            )
        if isinstance(entry, Created | Adopted) is (number > 0):
            raise LogInvalidError(
                f"entry {number} of the line has the wrong kind: the first entry must be created or"
                " adopted, and no later entry"
            )
        before = hash_of(each).hex()
    return RootLine(tuple(raw), entries)

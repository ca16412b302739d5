"""Leaves: what a coordinator says in its log about each change, in bytes that stay forever.

A leaf is one JSON object in its canonical form (RFC 8785): UTF-8, names in order, no spaces, whole
numbers below 2**53. The bytes are what is hashed. A reader accepts exactly those that it would
write itself, so one content has one text, and no kind and no field that it does not know: an older
verifier that passed over them would call a log complete that it has not understood.

No object in a leaf has names that people chose; where these occur they are values, as
``name_in_leaf`` writes them. Hashes are SHA-256 in lower-case hex; times are microseconds since
1970, as the coordinator claims them. Secret values, and hashes of them, are never in a leaf.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Annotated, Final, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from keyhouse.transparency.canonical import (
    NAME_BYTES,
    Hash,
    HashOrNone,
    Line,
    Name,
    Whole,
    canonical,
    read_canonical,
)
from keyhouse.transparency.errors import LogInvalidError

LEAF_BYTES: Final = 8_192
"""Bytes of the longest leaf. What may be longer is split over several, or is an object."""

_HASHED: Final = "sha256:"
_NAME_HASH: Final = re.compile(r"sha256:[0-9a-f]{64}")

_Random = Annotated[str, Meta(pattern=r"^[0-9a-f]{32}\Z")]
_At = Annotated[str, Meta(pattern=r"^(?:[1-9][0-9]{0,18}\.[1-9][0-9]{0,18}\.[0-9a-f]{64})?\Z")]
"""A position in the journal: epoch, sequence and chain (hex); empty: before its first record."""

_Small = Annotated[int, Meta(ge=0, le=2**16 - 1)]
_Decimal = Annotated[str, Meta(pattern=r"^(?:0|[1-9][0-9]{0,19})\Z")]


class _Common(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    tag_field="kind",
    forbid_unknown_fields=True,
    gc=False,  # a long log has many, and none refers to itself
):
    time: Whole
    v: Literal[1] = 1


class PreviousLog(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The last state that is known of a log that this one takes the place of, and why."""

    origin: Line
    size: Whole
    root: Hash
    reason: Annotated[str, Meta(min_length=1, max_length=1024)]


class LogBegun(_Common, frozen=True, tag="log-begun"):
    """The first leaf of every log.

    In a log that begins in a running deployment, the last three fields are about the manifest in
    force. Leaves of versions before 2026-11-23 lack them, as they lack ``public`` everywhere.
    """

    origin: Line
    root: Hash  # of the root certificate, DER
    key: Line  # that signs the checkpoints: a vkey
    platform: Line
    previous: PreviousLog | None
    imported: HashOrNone  # lines of the update log before this log: claimed only
    manifest: Hash | UnsetType = UNSET  # an object, if ``public``
    intermediate: Hash | UnsetType = UNSET
    public: bool | UnsetType = UNSET


class Recovery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many holders there are, and how many of their shares restore the data key."""

    holders: Whole
    threshold: Whole


class ManifestSet(_Common, frozen=True, tag="manifest-set"):
    """The first manifest took effect.

    ``public``: whether the manifest is an object of the log. A manifest with secret values is not.
    """

    manifest: Hash  # an object, if ``public``
    intermediate: Hash  # of the intermediate certificate, DER
    recovery: Recovery | None
    public: bool | UnsetType = UNSET


class Started(_Common, frozen=True, tag="started"):
    """A process began to serve. ``at`` is before its record, whose sequence nobody else can have.

    ``quote`` and ``collateral`` are objects.
    """

    at: _At
    instance: _Random
    version: Line
    platform: Line
    unique: HashOrNone  # empty in a confidential VM, like the rest
    signer: HashOrNone
    product: _Small
    svn: _Small
    quote: HashOrNone
    collateral: HashOrNone


class Recovered(_Common, frozen=True, tag="recovered"):
    """These holders' shares restored the state. Directly before the ``started`` with this ``at``.

    With very many holders it is several leaves.
    """

    at: _At
    holders: tuple[Name, ...]


class UpdateProposed(_Common, frozen=True, tag="update-proposed"):
    """A user proposed a manifest, and agreed to it with that."""

    user: Name
    certificate: Hash  # of the user's certificate, DER
    base: Hash  # the manifest in force
    manifest: Hash  # an object, if ``public``
    plan: HashOrNone  # the digest of the plan that the user saw
    needed: Whole  # how many have to agree, this user among them
    approval: HashOrNone
    public: bool | UnsetType = UNSET


class UpdateApproved(_Common, frozen=True, tag="update-approved"):
    """A user agreed to the pending manifest."""

    user: Name
    certificate: Hash
    manifest: Hash
    plan: HashOrNone
    missing: Whole  # how many more have to agree
    approval: HashOrNone


class UpdateCancelled(_Common, frozen=True, tag="update-cancelled"):
    """The pending update ended without effect.

    User and certificate are empty if nobody asked for it: it could not be applied.
    """

    user: Name
    certificate: HashOrNone
    manifest: Hash
    approval: HashOrNone


class ManifestUpdated(_Common, frozen=True, tag="manifest-updated"):
    """A manifest took the place of another."""

    base: Hash
    manifest: Hash  # an object, if ``public``
    intermediate: Hash
    recovery: Recovery | None
    public: bool | UnsetType = UNSET


class PackagesUpdated(_Common, frozen=True, tag="packages-updated"):
    """A user raised security versions. May be several leaves.

    ``versions``: names of packages with their versions, in decimal: they may exceed 2**53.
    """

    user: Name
    certificate: Hash
    base: Hash  # the manifest in force
    versions: tuple[tuple[Name, _Decimal], ...]
    intermediate: Hash
    plan: HashOrNone
    approval: HashOrNone


class Uploads(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """A user, the hash of the user's certificate, and the names of the secrets uploaded."""

    user: Name
    certificate: Hash
    names: tuple[Name, ...]


class SecretsUploaded(_Common, frozen=True, tag="secrets-uploaded"):
    """Users uploaded secrets, in this order. May be several leaves."""

    uploads: tuple[Uploads, ...]


class Anchor(_Common, frozen=True, tag="anchor"):
    """Nothing was decided, but this is where the journal stood. ``nonce`` is fresh."""

    at: _At
    nonce: _Random
    activations: HashOrNone


Leaf = (
    LogBegun
    | ManifestSet
    | Started
    | Recovered
    | UpdateProposed
    | UpdateApproved
    | UpdateCancelled
    | ManifestUpdated
    | PackagesUpdated
    | SecretsUploaded
    | Anchor
)


@cache
def _decoder() -> "msgspec.json.Decoder[Leaf]":
    """Return what reads leaves; a start that reads none makes none."""
    return msgspec.json.Decoder(Leaf)


def encode_leaf(leaf: Leaf) -> bytes:
    """Return the bytes of ``leaf``, known to be read as an equal one.

    Raises ``LogInvalidError`` if a value is out of its bounds, or all are too long together.
    """
    raw = canonical(leaf)
    if read_leaf(raw) != leaf:
        raise LogInvalidError("a leaf would be read as another one")
    return raw


def read_leaf(raw: bytes) -> Leaf:
    """Return the leaf in ``raw``. Raises ``LogInvalidError``, which repeats nothing of it."""
    if len(raw) > LEAF_BYTES:
        raise LogInvalidError(f"a leaf has at most {LEAF_BYTES} bytes")
    leaf = read_canonical(raw, _decoder())
    if leaf is None:
        raise LogInvalidError(
            "a leaf is not one that this version knows, or not in its canonical form",
            hint="if the coordinator is of a newer version, read its log with that version",
        )
    require_names(_names(leaf))
    return leaf


def _names(leaf: Leaf) -> Iterator[str]:
    """Yield the names in ``leaf`` that people chose."""
    match leaf:
        case SecretsUploaded():
            for each in leaf.uploads:
                yield each.user
                yield from each.names
        case Recovered():
            yield from leaf.holders
        case UpdateProposed() | UpdateApproved() | UpdateCancelled():
            yield leaf.user
        case PackagesUpdated():
            yield leaf.user
            yield from (name for name, _ in leaf.versions)
        case _:
            return


def require_names(names: Iterable[str]) -> None:
    """Raise ``LogInvalidError`` unless ``name_in_leaf`` can have returned each of ``names``.

    Else one name would have two spellings, and verifiers could differ about them.
    """
    for name in names:
        hashed = name.startswith(_HASHED)
        if hashed and not _NAME_HASH.fullmatch(name):
            raise LogInvalidError("a name begins as a hash does, and is not one")
        if not name.isascii() and len(name.encode()) > NAME_BYTES:
            raise LogInvalidError(f"a name has more than {NAME_BYTES} bytes: its hash is written")


def known_leaf(raw: bytes) -> Leaf | None:
    """Return the leaf in ``raw``; None: it is not of a kind that this version knows."""
    try:
        return read_leaf(raw)
    except LogInvalidError:
        return None


def name_in_leaf(name: str) -> str:
    """Return how a leaf writes a name that people chose: as it is, or the hash of a long one.

    No two names are written alike: one that begins as a hash does is written as a hash, too.
    """
    raw = name.encode()
    if len(raw) <= NAME_BYTES and name[: len(_HASHED)] != _HASHED:
        return name
    return _HASHED + object_name(raw)


def object_name(raw: bytes) -> str:
    """Return the name of an object of the log, or the hash of anything else that leaves name."""
    return hashlib.sha256(raw).hexdigest()

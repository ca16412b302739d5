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
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from keyhouse.transparency.errors import LogInvalidError

LEAF_BYTES: Final = 8_192
"""Bytes of the longest leaf. What may be longer is split over several, or is an object."""

_NAME_BYTES: Final = 512
_HASHED: Final = "sha256:"

_Hash = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
_HashOrNone = Annotated[str, Meta(pattern=r"^(?:[0-9a-f]{64})?\Z")]
"""The name of an object in the log; empty: there is none."""

_Random = Annotated[str, Meta(pattern=r"^[0-9a-f]{32}\Z")]
_At = Annotated[str, Meta(pattern=r"^(?:[1-9][0-9]{0,18}\.[1-9][0-9]{0,18}\.[0-9a-f]{64})?\Z")]
"""A position in the journal: epoch, sequence and chain (hex); empty: before its first record."""

_Whole = Annotated[int, Meta(ge=0, le=2**53 - 1)]
_Small = Annotated[int, Meta(ge=0, le=2**16 - 1)]
_Decimal = Annotated[str, Meta(pattern=r"^(?:0|[1-9][0-9]{0,19})\Z")]
_Line = Annotated[str, Meta(pattern=r"^[^\x00-\x1f]{1,255}\Z")]
_Name = Annotated[str, Meta(max_length=_NAME_BYTES)]


class _Common(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", forbid_unknown_fields=True
):
    time: _Whole
    v: Literal[1] = 1


class PreviousLog(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The last state that is known of a log that this one takes the place of, and why."""

    origin: _Line
    size: _Whole
    root: _Hash
    reason: Annotated[str, Meta(min_length=1, max_length=1024)]


class LogBegun(_Common, frozen=True, tag="log-begun"):
    """The first leaf of every log."""

    origin: _Line
    root: _Hash  # of the root certificate, DER
    key: _Line  # that signs the checkpoints: a vkey
    platform: _Line
    previous: PreviousLog | None
    imported: _HashOrNone  # lines of the update log before this log: claimed only


class Recovery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many holders there are, and how many of their shares restore the data key."""

    holders: _Whole
    threshold: _Whole


class ManifestSet(_Common, frozen=True, tag="manifest-set"):
    """The first manifest took effect."""

    manifest: _Hash  # an object
    intermediate: _Hash  # of the intermediate certificate, DER
    recovery: Recovery | None


class Started(_Common, frozen=True, tag="started"):
    """A process began to serve. ``at`` is before its record, whose sequence nobody else can have.

    ``quote`` and ``collateral`` are objects.
    """

    at: _At
    instance: _Random
    version: _Line
    platform: _Line
    unique: _HashOrNone  # empty in a confidential VM, like the rest
    signer: _HashOrNone
    product: _Small
    svn: _Small
    quote: _HashOrNone
    collateral: _HashOrNone


class Recovered(_Common, frozen=True, tag="recovered"):
    """These holders' shares restored the state. Directly before the ``started`` with this ``at``.

    With very many holders it is several leaves.
    """

    at: _At
    holders: tuple[_Name, ...]


class UpdateProposed(_Common, frozen=True, tag="update-proposed"):
    """A user proposed a manifest, and agreed to it with that."""

    user: _Name
    certificate: _Hash  # of the user's certificate, DER
    base: _Hash  # the manifest in force
    manifest: _Hash  # an object
    plan: _HashOrNone  # the digest of the plan that the user saw
    needed: _Whole  # how many have to agree, this user among them
    approval: _HashOrNone


class UpdateApproved(_Common, frozen=True, tag="update-approved"):
    """A user agreed to the pending manifest."""

    user: _Name
    certificate: _Hash
    manifest: _Hash
    plan: _HashOrNone
    missing: _Whole  # how many more have to agree
    approval: _HashOrNone


class UpdateCancelled(_Common, frozen=True, tag="update-cancelled"):
    """The pending update ended without effect.

    User and certificate are empty if nobody asked for it: it could not be applied.
    """

    user: _Name
    certificate: _HashOrNone
    manifest: _Hash
    approval: _HashOrNone


class ManifestUpdated(_Common, frozen=True, tag="manifest-updated"):
    """A manifest took the place of another."""

    base: _Hash
    manifest: _Hash  # an object
    intermediate: _Hash
    recovery: Recovery | None


class PackagesUpdated(_Common, frozen=True, tag="packages-updated"):
    """A user raised security versions. May be several leaves.

    ``versions``: names of packages with their versions, in decimal: they may exceed 2**53.
    """

    user: _Name
    certificate: _Hash
    base: _Hash  # the manifest in force
    versions: tuple[tuple[_Name, _Decimal], ...]
    intermediate: _Hash
    plan: _HashOrNone
    approval: _HashOrNone


class Uploads(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A user, the hash of the user's certificate, and the names of the secrets uploaded."""

    user: _Name
    certificate: _Hash
    names: tuple[_Name, ...]


class SecretsUploaded(_Common, frozen=True, tag="secrets-uploaded"):
    """Users uploaded secrets, in this order. May be several leaves."""

    uploads: tuple[Uploads, ...]


class Anchor(_Common, frozen=True, tag="anchor"):
    """Nothing was decided, but this is where the journal stood. A format so far."""

    at: _At
    nonce: _Random
    activations: _HashOrNone


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

_ENCODER: Final = msgspec.json.Encoder(order="sorted")
_DECODER: Final[msgspec.json.Decoder[Leaf]] = msgspec.json.Decoder(Leaf)


def encode_leaf(leaf: Leaf) -> bytes:
    """Return the bytes of ``leaf``, known to be read as an equal one.

    Raises ``LogInvalidError`` if a value is out of its bounds, or all are too long together.
    """
    raw = _ENCODER.encode(leaf)
    if read_leaf(raw) != leaf:
        raise LogInvalidError("a leaf would be read as another one")
    return raw


def read_leaf(raw: bytes) -> Leaf:
    """Return the leaf in ``raw``. Raises ``LogInvalidError``, which repeats nothing of it."""
    if len(raw) > LEAF_BYTES:
        raise LogInvalidError(f"a leaf has at most {LEAF_BYTES} bytes")
    try:
        leaf = _DECODER.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):  # its text repeats names
        leaf = None
    if leaf is None or _ENCODER.encode(leaf) != raw:
        raise LogInvalidError(
            "a leaf is not one that this version knows, or not in its canonical form",
            hint="if the coordinator is of a newer version, read its log with that version",
        )
    return leaf


def name_in_leaf(name: str) -> str:
    """Return how a leaf writes a name that people chose: as it is, or the hash of a long one.

    No two names are written alike: one that begins as a hash does is written as a hash, too.
    """
    raw = name.encode()
    if len(raw) <= _NAME_BYTES and not name.startswith(_HASHED):
        return name
    return _HASHED + object_name(raw)


def object_name(raw: bytes) -> str:
    """Return the name of an object of the log, or the hash of anything else that leaves name."""
    return hashlib.sha256(raw).hexdigest()

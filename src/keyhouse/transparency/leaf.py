"""Leaves: a coordinator's statements about each change, in final bytes.

A leaf is a JSON object in canonical form (RFC 8785), and the log hashes these bytes. A reader
accepts only the canonical bytes, and only known kinds and fields. An older verifier that skipped an
unknown kind would call a log complete without understanding it.

Field names never come from people. Names from people are values, written by ``name_in_leaf``.
Hashes are SHA-256 in lower-case hex. Times are microseconds since 1970, as the coordinator claims
them. A leaf never contains a secret value, or the hash of a secret value.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator
from enum import StrEnum
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
"""Maximum length in bytes of a leaf. Longer content is split, or stored as an object."""

_HASHED: Final = "sha256:"
_NAME_HASH: Final = r"sha256:[0-9a-f]{64}"

_Random = Annotated[str, Meta(pattern=r"^[0-9a-f]{32}\Z")]
_At = Annotated[str, Meta(pattern=r"^(?:[1-9][0-9]{0,18}\.[1-9][0-9]{0,18}\.[0-9a-f]{64})?\Z")]
"""A position in the journal: epoch, sequence and chain (hex); empty: before its first record."""

_Small = Annotated[int, Meta(ge=0, le=2**16 - 1)]
_Decimal = Annotated[str, Meta(pattern=r"^(?:0|[1-9][0-9]{0,19})\Z")]
_Word = Annotated[str, Meta(pattern=r"^[a-z][a-z-]{0,31}\Z")]
_Subject = Annotated[tuple[Name, ...], Meta(min_length=1)]


class _Common(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    tag_field="kind",
    forbid_unknown_fields=True,
    gc=False,  # a long log has many leaves; none refers to itself
):
    time: Whole
    v: Literal[1] = 1


class PreviousLog(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The last known state of a log that a new log replaces, and the reason."""

    origin: Line
    size: Whole
    root: Hash
    reason: Annotated[str, Meta(min_length=1, max_length=1024)]


class LogBegunLeaf(_Common, frozen=True, tag="log-begun"):
    """The first leaf of every log.

    In a log that begins in a running deployment, ``manifest``, ``intermediate`` and ``public``
    describe the manifest in force. Versions of Keyhouse before 2026-11-23 wrote leaves without
    these fields.
    """

    origin: Line
    root: Hash  # of the root certificate, DER
    key: Line  # of the checkpoints: a C2SP verifier key
    platform: Line
    previous: PreviousLog | None
    imported: HashOrNone  # lines of the former update log: a claim without a proof
    manifest: Hash | UnsetType = UNSET  # an object, if ``public``
    intermediate: Hash | UnsetType = UNSET
    public: bool | UnsetType = UNSET


class RecoverySetup(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The number of holders of shares, and the number of shares that restore the data key."""

    holders: Whole
    threshold: Whole


class ManifestSetLeaf(_Common, frozen=True, tag="manifest-set"):
    """The first manifest took effect.

    ``public``: true if the manifest is an object of the log. A manifest with secret values is not
    public.
    """

    manifest: Hash  # an object, if ``public``
    intermediate: Hash  # of the intermediate certificate, DER
    recovery: RecoverySetup | None
    public: bool | UnsetType = UNSET


class StartedLeaf(_Common, frozen=True, tag="started"):
    """A coordinator process began to serve.

    ``at`` is the place in the journal before the record of this start. Within a log, no two starts
    have the same sequence in ``at``. ``quote`` and ``collateral`` name objects of the log.
    """

    at: _At
    instance: _Random
    version: Line
    platform: Line
    unique: HashOrNone  # this and the next three: empty in a confidential VM
    signer: HashOrNone
    product: _Small
    svn: _Small
    quote: HashOrNone
    collateral: HashOrNone


class RecoveredLeaf(_Common, frozen=True, tag="recovered"):
    """The shares of ``holders`` restored the state.

    The ``started`` leaf with the same ``at`` follows. A recovery with very many holders has several
    such leaves.
    """

    at: _At
    holders: tuple[Name, ...]


class UpdateProposedLeaf(_Common, frozen=True, tag="update-proposed"):
    """A user proposed a manifest. The proposal is also the first approval."""

    user: Name
    certificate: Hash  # of the user's certificate, DER
    base: Hash  # the manifest in force
    manifest: Hash  # an object, if ``public``
    plan: HashOrNone  # the digest of the plan that the user saw
    needed: Whole  # required approvals, including this user's
    approval: HashOrNone
    public: bool | UnsetType = UNSET


class UpdateApprovedLeaf(_Common, frozen=True, tag="update-approved"):
    """A user approved the pending manifest."""

    user: Name
    certificate: Hash
    manifest: Hash
    plan: HashOrNone
    missing: Whole  # number of missing approvals
    approval: HashOrNone


class UpdateCancelledLeaf(_Common, frozen=True, tag="update-cancelled"):
    """The pending update ended without effect.

    ``user`` and ``certificate`` are empty if the coordinator itself cancelled an update, because
    the coordinator could not apply the update.
    """

    user: Name
    certificate: HashOrNone
    manifest: Hash
    approval: HashOrNone


class ManifestUpdatedLeaf(_Common, frozen=True, tag="manifest-updated"):
    """An update took effect: ``manifest`` replaced the manifest ``base``."""

    base: Hash
    manifest: Hash  # an object, if ``public``
    intermediate: Hash
    recovery: RecoverySetup | None
    public: bool | UnsetType = UNSET


class PackagesUpdatedLeaf(_Common, frozen=True, tag="packages-updated"):
    """A user raised security versions of packages. A large update has several such leaves.

    ``versions``: names of packages with their versions. These are decimal texts, because a version
    may exceed 2**53, the limit for numbers in canonical JSON.
    """

    user: Name
    certificate: Hash
    base: Hash  # the manifest in force
    versions: tuple[tuple[Name, _Decimal], ...]
    intermediate: Hash
    plan: HashOrNone
    approval: HashOrNone


class Uploads(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """A user, the hash of the user's certificate, and the names of the uploaded secrets."""

    user: Name
    certificate: Hash
    names: tuple[Name, ...]


class SecretsUploadedLeaf(_Common, frozen=True, tag="secrets-uploaded"):
    """Users uploaded secrets, in this order. Large uploads have several such leaves."""

    uploads: tuple[Uploads, ...]


class TrustChange(StrEnum):
    """The kinds of changes in ``TrustLeaf`` that this version knows."""

    REVOKED = "revoked"
    ROOTS = "roots"


class RootStanding(StrEnum):
    """The standing of a marble root in ``TrustLeaf``."""

    IN_FORCE = "in-force"
    FORMER = "former"


class TrustLeaf(_Common, frozen=True, tag="trust"):
    """The workloads that others may trust have changed. ``what`` names the kind of change.

    - ``TrustChange.REVOKED``: ``user`` revoked the only subject: ``("workload", type, hash of the
      UUID)``, ``("type", type)`` or ``("platform", hash of its id)``. The hashes hide who runs
      where: see ``hidden_in_leaf``.
    - ``TrustChange.ROOTS``: an update changed the marble root. The subjects are ``("in-force",
      hash)``, then ``("former", hash, end)`` for each former root. ``user`` and ``certificate`` are
      empty, because the leaves before state who decided.

    A later version may add a kind of change. A reader shows an unknown kind and does not refuse the
    leaf. A verifier reports a gap.
    """

    what: _Word
    user: Name
    certificate: HashOrNone
    subjects: tuple[_Subject, ...]


class AnchorLeaf(_Common, frozen=True, tag="anchor"):
    """An anchor: a place of the journal for witnesses to cosign, without a change.

    ``nonce`` is new and random.
    """

    at: _At
    nonce: _Random
    activations: HashOrNone


Leaf = (
    LogBegunLeaf
    | ManifestSetLeaf
    | StartedLeaf
    | RecoveredLeaf
    | UpdateProposedLeaf
    | UpdateApprovedLeaf
    | UpdateCancelledLeaf
    | ManifestUpdatedLeaf
    | PackagesUpdatedLeaf
    | SecretsUploadedLeaf
    | TrustLeaf
    | AnchorLeaf
)


@cache
def _decoder() -> "msgspec.json.Decoder[Leaf]":
    """Return the decoder of leaves, made at its first use."""
    return msgspec.json.Decoder(Leaf)


def encode_leaf(leaf: Leaf) -> bytes:
    """Return the canonical bytes of ``leaf``, after a check that they decode to an equal leaf.

    Raises ``LogInvalidError`` for a value out of its bounds, and for a leaf that is too long.
    """
    raw = canonical(leaf)
    if read_leaf(raw) != leaf:
        raise LogInvalidError("a leaf does not decode to the same value")
    return raw


def read_leaf(raw: bytes) -> Leaf:
    """Return the leaf in ``raw``. Raises ``LogInvalidError``, which repeats no part of ``raw``."""
    if len(raw) > LEAF_BYTES:
        raise LogInvalidError(f"a leaf has more than {LEAF_BYTES} bytes")
    leaf = read_canonical(raw, _decoder())
    if leaf is None:
        raise LogInvalidError(
            "a leaf has an unknown kind or field, or is not in its canonical form",
            hint="read the log with the version of its coordinator, if that version is newer",
        )
    require_names(_names(leaf))
    return leaf


def _names(leaf: Leaf) -> Iterator[str]:
    """Yield the names in ``leaf`` that people chose."""
    match leaf:
        case SecretsUploadedLeaf():
            for each in leaf.uploads:
                yield each.user
                yield from each.names
        case RecoveredLeaf():
            yield from leaf.holders
        case UpdateProposedLeaf() | UpdateApprovedLeaf() | UpdateCancelledLeaf():
            yield leaf.user
        case PackagesUpdatedLeaf():
            yield leaf.user
            yield from (name for name, _ in leaf.versions)
        case TrustLeaf():
            yield leaf.user
            for subject in leaf.subjects:
                yield from subject
        case _:
            return


def require_names(names: Iterable[str]) -> None:
    """Raise ``LogInvalidError`` unless ``name_in_leaf`` can have returned each of ``names``.

    Without this check, a name could have two spellings in leaves. Verifiers could then disagree
    whether both mean the same user or secret.
    """
    for name in names:
        hashed = name.startswith(_HASHED)
        if hashed and not re.fullmatch(_NAME_HASH, name):
            raise LogInvalidError(f"a name in a leaf begins with {_HASHED} but is not a hash")
        if not name.isascii() and len(name.encode()) > NAME_BYTES:
            raise LogInvalidError(
                f"a name in a leaf has more than {NAME_BYTES} bytes; expected the hash of the name"
            )


def name_in_leaf(name: str) -> str:
    """Return ``name``, which a person chose, in its form for leaves; a long name becomes a hash.

    Different names have different forms. So a short name that begins like such a hash also becomes
    a hash.
    """
    raw = name.encode()
    if len(raw) <= NAME_BYTES and name[: len(_HASHED)] != _HASHED:
        return name
    return _HASHED + object_name(raw)


def hidden_in_leaf(text: str) -> str:
    """Return ``text``, a UUID or the hex of a platform id, in its form for leaves: a hash.

    A person who knows the text can compute the hash. The log reveals the text to nobody else.
    """
    return _HASHED + object_name(text.encode())


def object_name(raw: bytes) -> str:
    """Return the SHA-256 of ``raw`` in hex: the name of an object of the log."""
    return hashlib.sha256(raw).hexdigest()

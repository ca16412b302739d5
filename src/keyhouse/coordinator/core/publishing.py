"""Derives the leaves of the transparency log from changes. Pure, like ``decide``."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final, TypeVar

import msgspec
from msgspec import UNSET

from keyhouse.authority import CoordinatorKeys, RecoveryMaterial
from keyhouse.coordinator.core import events
from keyhouse.coordinator.core.commands import Command, MakeAnchor, UpdatePackages, UploadSecrets
from keyhouse.coordinator.core.context import Context
from keyhouse.coordinator.core.decide import start
from keyhouse.coordinator.core.policy import policy_of
from keyhouse.coordinator.core.state import FormerRoot, PublicLog, Running, State
from keyhouse.manifest import fingerprint
from keyhouse.transparency import leaf as leaves
from keyhouse.transparency.canonical import canonical
from keyhouse.transparency.leaf import (
    LEAF_BYTES,
    Leaf,
    encode_leaf,
    hidden_in_leaf,
    name_in_leaf,
    object_name,
)

T = TypeVar("T")

_ROOM: Final = LEAF_BYTES - 1024
"""Bytes of a leaf for a list of names, including quotes. The rest is for all other fields."""


_WITH_LEAVES: Final = (events.Published, events.SecretsUploaded)


class _Signer(msgspec.Struct, frozen=True):
    """The user of a command, with the plan and approval of this user.

    Each field is a SHA-256, or empty if there is none.
    """

    certificate: str
    plan: str
    approval: str

    @classmethod
    def by(cls, command: Command) -> "_Signer":
        approved = getattr(command, "approved", None)  # only commands of users have one
        return cls(
            _certificate(command),
            getattr(command, "plan", ""),
            "" if approved is None else object_name(approved.envelope),
        )


class Publishing:
    """The leaves of a batch, in the order of its changes."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._leaves: list[bytes] = []
        self._uploads: list[leaves.Uploads] = []

    def add(self, before: State, command: Command, made: Iterable[events.Event]) -> None:
        """Add the leaves of ``command``, decided on the state ``before`` with the events ``made``.

        Raises ``LogInvalidError`` for an invalid leaf, which is a defect of Keyhouse.
        """
        if isinstance(command, UploadSecrets):
            for event in made:
                if isinstance(event, events.SecretsUploaded):
                    self._uploads.append(_uploads(event, _hash_of(command.identity)))
            return
        if isinstance(command, MakeAnchor):
            self._end_uploads()
            self._leaves.append(encode_leaf(_anchor(command, self._context)))
        signer = _Signer.by(command)
        for event in made:
            self._end_uploads()
            if isinstance(
                event, events.LogBegun
            ):  # made after its manifest; the log begins with this leaf
                begun = log_begun(event, before.keys, self._context.platform)
                self._leaves.insert(0, encode_leaf(begun))
            self._leaves += map(encode_leaf, _leaves(before, event, signer, self._context))

    def finish(self) -> tuple[bytes, ...]:
        """Return the encoded leaves of the batch."""
        self._end_uploads()
        return tuple(self._leaves)

    def _end_uploads(self) -> None:
        if self._uploads:
            self._leaves += _uploaded(self._context.now, self._uploads)
            self._uploads = []


def log_begun(
    event: events.LogBegun,
    keys: CoordinatorKeys,
    platform: str,
    in_force: bytes | None = None,
    previous: leaves.PreviousLog | None = None,
) -> leaves.LogBegunLeaf:
    """Return the first leaf of a log, with the root in ``keys`` and the kind of ``platform``.

    ``in_force``: the manifest of a deployment that already runs. This leaf names the manifest,
    because no other leaf of the new log does. None: the leaf of the first manifest follows.
    ``previous``: the log that the new log replaces.
    """
    return leaves.LogBegunLeaf(
        time=event.time,
        origin=event.verifier.partition("+")[0],
        root=hashlib.sha256(keys.root_cert).hexdigest(),
        key=event.verifier,
        platform=platform,
        previous=previous,
        imported=event.imported,
        manifest=UNSET if in_force is None else fingerprint(in_force),
        intermediate=UNSET if in_force is None else _intermediate(keys),
        public=UNSET if in_force is None else is_public(in_force),
    )


def _replaced_log(log: PublicLog | None) -> leaves.PreviousLog | None:
    if log is None:
        return None
    frontier = log.frontier
    return leaves.PreviousLog(log.origin, frontier.size, frontier.root.hex(), "--begin-new-log")


def started(event: events.Started, context: Context) -> leaves.StartedLeaf:
    """Return the leaf about the start of a coordinator process."""
    return leaves.StartedLeaf(
        time=event.time,
        at=context.at,
        instance=event.instance.hex(),
        version=event.version,
        platform=context.platform,
        unique=event.measurement.hex(),
        signer=context.signer.hex(),
        product=context.product,
        svn=context.security_version,
        quote="",
        collateral="",
    )


def _anchor(command: MakeAnchor, context: Context) -> leaves.AnchorLeaf:
    return leaves.AnchorLeaf(
        time=context.now, at=context.at, nonce=command.nonce.hex(), activations=""
    )


def recovered(time: int, at: str, holders: Iterable[str]) -> Iterator[leaves.RecoveredLeaf]:
    """Yield the leaves of a recovery with the shares of ``holders``.

    ``time``: microseconds since 1970. ``at``: the position of the journal as text, equal to the
    position in the leaf about the start that follows.
    """
    for portion in _portions([name_in_leaf(holder) for holder in holders], _ROOM):
        yield leaves.RecoveredLeaf(time=time, at=at, holders=portion)


def _leaves(
    before: State, event: events.Event, signer: _Signer, context: Context
) -> Iterator[Leaf]:
    match event:
        case events.ManifestSet():
            yield leaves.ManifestSetLeaf(
                time=event.time,
                manifest=fingerprint(event.manifest),
                intermediate=_intermediate(event.keys),
                recovery=_recovery(event.recovery),
                public=is_public(event.manifest),
            )
            yield from _roots(event.time, event.keys, (), event.manifest)
        case events.Started():
            yield started(event, context)
        case events.UpdateInitiated() | events.UpdateAcknowledged() | events.UpdateCancelled():
            yield from _agreement(before, event, signer)
        case events.ManifestUpdated() if isinstance(before, Running):
            yield leaves.ManifestUpdatedLeaf(
                time=event.time,
                base=fingerprint(before.manifest),
                manifest=fingerprint(event.manifest),
                intermediate=_intermediate(event.keys),
                recovery=_recovery(event.recovery),
                public=is_public(event.manifest),
            )
            manifests = event.manifest, before.manifest
            yield from _roots(event.time, event.keys, event.former_roots, *manifests)
        case events.PackagesUpdated() if isinstance(before, Running):
            yield from _packages(before, event, signer)
            yield from _roots(event.time, event.keys, (), before.manifest)
        case events.WorkloadsRevoked():
            yield leaves.TrustLeaf(
                time=event.time,
                what=leaves.TrustChange.REVOKED,
                user=name_in_leaf(event.user),
                certificate=signer.certificate,
                subjects=(_revoked(event),),
            )
        case _:
            return


def _agreement(
    before: State,
    event: events.UpdateInitiated | events.UpdateAcknowledged | events.UpdateCancelled,
    signer: _Signer,
) -> Iterator[Leaf]:
    user = name_in_leaf(event.user)
    match event:
        case events.UpdateInitiated() if isinstance(before, Running):
            yield leaves.UpdateProposedLeaf(
                time=event.time,
                user=user,
                certificate=signer.certificate,
                base=fingerprint(before.manifest),
                manifest=fingerprint(event.pending.manifest),
                plan=signer.plan,
                needed=event.pending.needed,
                approval=signer.approval,
                public=is_public(event.pending.manifest),
            )
        case events.UpdateAcknowledged():
            yield leaves.UpdateApprovedLeaf(
                time=event.time,
                user=user,
                certificate=signer.certificate,
                manifest=fingerprint(event.pending.manifest),
                plan=signer.plan,
                missing=event.pending.missing,
                approval=signer.approval,
            )
        case events.UpdateCancelled():
            yield leaves.UpdateCancelledLeaf(
                time=event.time,
                user=user,
                certificate=signer.certificate,
                manifest=event.fingerprint,
                approval=signer.approval,
            )


def _packages(
    before: Running, event: events.PackagesUpdated, signer: _Signer
) -> Iterator[leaves.PackagesUpdatedLeaf]:
    user = name_in_leaf(event.user)
    versions = [(name_in_leaf(name), str(new)) for name, new in sorted(event.versions.items())]
    for portion in _portions(versions, _ROOM - _size(user)):
        yield leaves.PackagesUpdatedLeaf(
            time=event.time,
            user=user,
            certificate=signer.certificate,
            base=fingerprint(before.manifest),
            versions=portion,
            intermediate=_intermediate(event.keys),
            plan=signer.plan,
            approval=signer.approval,
        )


def _revoked(event: events.WorkloadsRevoked) -> tuple[str, ...]:
    match event.scope:
        case events.Scope.PLATFORM:
            return event.scope, hidden_in_leaf(event.platform.hex())
        case events.Scope.TYPE:
            return event.scope, name_in_leaf(event.marble_type)
        case events.Scope.WORKLOAD:
            return event.scope, name_in_leaf(event.marble_type), hidden_in_leaf(event.uuid)


def _roots(
    time: int, keys: CoordinatorKeys, former: Iterable[FormerRoot], *manifests: bytes
) -> Iterator[leaves.TrustLeaf]:
    """Yield the leaf about the marble roots if one of ``manifests`` permits renewals.

    A manifest that permits revocations counts, too. Without such a manifest, the log has no such
    leaf, so older verifiers can read the log. ``former``: the former marble roots that workloads
    still trust. ``keys`` has the marble root in force.
    """
    if not any(policy_of(raw).manifest.is_living for raw in manifests):
        return
    older = (
        (leaves.RootStanding.FORMER, object_name(each.certificate), str(each.until))
        for each in former
    )
    in_force = (leaves.RootStanding.IN_FORCE, object_name(keys.marble_root_cert))
    yield leaves.TrustLeaf(
        time=time,
        what=leaves.TrustChange.ROOTS,
        user="",
        certificate="",
        subjects=(in_force, *older),
    )


def _certificate(command: Command) -> str:
    """Return the SHA-256 of the user's certificate; empty for a command of the coordinator."""
    identity = getattr(command, "identity", None)
    return "" if identity is None else _hash_of(identity)


_hash_of = lru_cache(maxsize=64)(object_name)  # a user uploads many times over one connection


_known_name: Final = lru_cache(maxsize=256)(name_in_leaf)
"""Cached for names of users and secrets, because the same names are uploaded again."""


def _uploads(event: events.SecretsUploaded, certificate: str) -> leaves.Uploads:
    names = tuple([_known_name(upload.name) for upload in event.uploads])
    return leaves.Uploads(_known_name(event.user), certificate, names)


def _uploaded(time: int, uploads: Sequence[leaves.Uploads]) -> Iterable[bytes]:
    """Return the smallest number of encoded leaves for ``uploads``, in their order.

    A single leaf is not parsed again as a check, because ``_uploads`` bounds all its parts.
    """
    whole = canonical(leaves.SecretsUploadedLeaf(time=time, uploads=tuple(uploads)))
    if len(whole) <= _ROOM:
        return (whole,)
    return map(encode_leaf, _split(time, uploads))


def _split(time: int, uploads: Iterable[leaves.Uploads]) -> Iterator[leaves.SecretsUploadedLeaf]:
    rows: list[leaves.Uploads] = []
    used = 0
    for each in uploads:
        frame = _size(each.user) + _size(each.certificate) + 4
        for portion in _portions(each.names, _ROOM - frame):
            size = frame + sum(map(_size, portion))
            if used + size > _ROOM and rows:
                yield leaves.SecretsUploadedLeaf(time=time, uploads=tuple(rows))
                rows, used = [], 0
            rows.append(leaves.Uploads(each.user, each.certificate, portion))
            used += size
    if rows:
        yield leaves.SecretsUploadedLeaf(time=time, uploads=tuple(rows))


def _portions(values: Iterable[T], room: int) -> Iterator[tuple[T, ...]]:
    """Yield ``values`` in their order, in non-empty portions of at most ``room`` bytes."""
    portion: list[T] = []
    used = 0
    for value in values:
        size = _size(value)
        if used + size > room and portion:
            yield tuple(portion)
            portion, used = [], 0
        portion.append(value)
        used += size
    if portion:
        yield tuple(portion)


def _size(value: object) -> int:
    """Return the size of ``value`` in bytes as an item of a JSON list."""
    return len(msgspec.json.encode(value)) + 1


def _intermediate(keys: CoordinatorKeys) -> str:
    return hashlib.sha256(keys.intermediate_cert).hexdigest()


def _recovery(material: RecoveryMaterial) -> leaves.RecoverySetup | None:
    if not material.holders:
        return None
    return leaves.RecoverySetup(len(material.holders), material.effective_threshold)


def objects_of(command: Command, made: Iterable[events.Event]) -> list[bytes]:
    """Return the log objects that the leaves of ``command`` name; ``made`` are its events."""
    objects: list[bytes] = []
    if isinstance(command, UploadSecrets):  # the common case has no objects
        return objects
    if (approved := getattr(command, "approved", None)) is not None:
        objects.append(approved.envelope)
        if isinstance(command, UpdatePackages):
            objects.append(command.update)
    for event in made:
        match event:
            case events.ManifestSet() | events.ManifestUpdated():
                objects += manifest_object(event.manifest)
            case events.UpdateInitiated():
                objects += manifest_object(event.pending.manifest)
    return objects


def manifest_object(raw: bytes) -> list[bytes]:
    """Return the manifest ``raw`` as an object of the log, if it is public."""
    return [raw] if is_public(raw) else []


def is_public(raw: bytes) -> bool:
    """Return whether the log publishes the manifest ``raw``: only if it has no value of a secret.

    A client can read such a value from the manifest while it is in force. The log would keep the
    value forever, and on the disk.
    """
    return not policy_of(raw).manifest.has_values


def leaves_of(made: Iterable[events.Event]) -> list[bytes]:
    """Return the leaves that the events ``made`` append to the log."""
    return [leaf for event in made if isinstance(event, _WITH_LEAVES) for leaf in event.leaves]


def start_events(
    state: Running,
    context: Context,
    begun: events.LogBegun | None,
    holders: Iterable[str] = (),
    *,
    drops_pending: bool = False,
) -> tuple[events.Event, ...]:
    """Return the events of a start, with their leaves.

    ``begun``: the event that begins a new log; None: no log begins. ``holders``: the owners of the
    shares, if the start is a recovery. ``drops_pending``: cancel the pending update, because
    nothing proves its acknowledgements.
    """
    record = start(context)
    made: list[Leaf] = []
    if begun is not None:
        previous = _replaced_log(state.public_log)
        made.append(log_begun(begun, state.keys, state.platform, state.manifest, previous))
        made += _roots(begun.time, state.keys, state.former_roots, state.manifest)
    made += recovered(context.now, context.at, holders)
    made.append(started(record, context))
    dropped: tuple[events.UpdateCancelled, ...] = ()
    if drops_pending and state.pending is not None:
        pending = fingerprint(state.pending.manifest)
        dropped = (events.UpdateCancelled(time=context.now, user="", fingerprint=pending),)
        for event in dropped:
            made += _agreement(state, event, _Signer("", "", ""))
    published = events.Published(tuple(map(encode_leaf, made)))
    first = () if begun is None else (begun,)
    return (*first, record, *dropped, published)

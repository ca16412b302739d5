"""The events: the vocabulary of the journal.

An event holds final bytes: keys, certificates, secrets, time. ``evolve`` generates nothing and
checks no rule again. Tags and field names never change. A new version may add names, but must not
rename them: the tests replay journals of each release.

The base of an epoch is a run of ``Base...`` events. Each of them holds a piece of the state, of
bounded size.
"""

from enum import StrEnum
from typing import Final

import msgspec

from keyhouse.attestation import Mark
from keyhouse.attestation.quote.report import Measured
from keyhouse.authority import CoordinatorKeys, RecoveryMaterial, StoredSecret
from keyhouse.base.secret import Secret
from keyhouse.coordinator.core.state import (
    FormerRoot,
    Lineage,
    LineItem,
    Member,
    PendingUpdate,
    PlatformRevocation,
    PublicLog,
)
from keyhouse.wire.secret_types import SecretType

LEVEL: Final = 4
"""The set of event kinds that this version reads and writes. A new kind raises the level.

A coordinator compares the level with the levels of its replicas, because an older replica cannot
read the new kind. Level 2 added ``LineExtended`` and ``BaseLine``. Level 3 added the events of
living workloads: ``MarblesRenewed``, ``WorkloadsRevoked``, ``BaseLineages`` and
``BaseRevocations``. A journal has level 3 only under a manifest that needs these events. Level 4
added ``FlushShared``.
"""

LINE_LEVEL: Final = 2
LIVING_LEVEL: Final = 3
FLUSH_LEVEL: Final = 4

Time = int
"""Microseconds since 1970-01-01T00:00:00Z."""


class ManifestSet(msgspec.Struct, frozen=True, tag="manifest-set"):
    """The first manifest of a deployment took effect, with all generated keys and secrets."""

    time: Time
    platform: str
    keys: CoordinatorKeys
    manifest: bytes
    signature: bytes
    secrets: dict[str, StoredSecret]
    recovery: RecoveryMaterial


class Started(msgspec.Struct, frozen=True, tag="started", omit_defaults=True):
    """A process began to serve this journal."""

    time: Time
    instance: bytes  # 16 random bytes
    version: str
    measurement: bytes  # the process's own MRENCLAVE
    member: Member | None = None  # only with a shared store


class Uploaded(msgspec.Struct, frozen=True):
    """An uploaded value of a secret, part of the event ``SecretsUploaded``."""

    name: str
    type: SecretType
    value: StoredSecret


class SecretsUploaded(msgspec.Struct, frozen=True, omit_defaults=True, tag="secrets-uploaded"):
    """A user uploaded secrets.

    If this is the last event of a batch, the event also holds the leaves of the batch for the
    transparency log. A separate event ``Published`` would cost half as much as the upload.
    """

    time: Time
    user: str
    uploads: tuple[Uploaded, ...]
    leaves: tuple[bytes, ...] = ()


class CollateralSeen(msgspec.Struct, frozen=True, tag="collateral-seen"):
    """A quote was verified with newer collateral. Afterwards, older collateral is refused.

    ``marks``: the newer parts, by name (``attestation.marks_of``).
    """

    time: Time
    marks: dict[str, Mark]


class PackagesUpdated(msgspec.Struct, frozen=True, tag="packages-updated"):
    """A user raised security versions. All certificates of the old intermediate CA are replaced.

    The update ends the trust in all former marble roots at once.
    """

    time: Time
    user: str
    versions: dict[str, int]  # by package
    keys: CoordinatorKeys  # same root, new intermediate
    secrets: dict[str, StoredSecret]  # the shared certificates, reissued


class UpdateInitiated(msgspec.Struct, frozen=True, tag="update-initiated"):
    """A user proposed a new manifest. The proposal is also the first acknowledgement."""

    time: Time
    user: str
    pending: PendingUpdate


class UpdateAcknowledged(msgspec.Struct, frozen=True, tag="update-acknowledged"):
    """A user acknowledged the pending manifest."""

    time: Time
    user: str
    pending: PendingUpdate  # includes this acknowledgement


class UpdateCancelled(msgspec.Struct, frozen=True, tag="update-cancelled"):
    """The pending update was cancelled: by ``user``, or (empty) by the coordinator."""

    time: Time
    user: str
    fingerprint: str


class ManifestUpdated(msgspec.Struct, frozen=True, tag="manifest-updated"):
    """A new manifest replaced the old manifest.

    The update begins an epoch, whose base contains its effects. So this event is never a record.
    """

    time: Time
    keys: CoordinatorKeys  # same root, new intermediate, perhaps a new root secret
    manifest: bytes
    signature: bytes
    kept: tuple[str, ...]  # secrets with unchanged values, and unchanged previous values
    secrets: dict[str, StoredSecret]  # all other secrets with a value
    previous: dict[str, StoredSecret]
    previous_root_secret: Secret
    previous_sizes: dict[str, int]
    recovery: RecoveryMaterial
    notes: tuple[str, ...]  # remarks for users, as text
    former_witnesses: str = ""  # policy of the replaced witnesses, who must cosign the replacement
    former_roots: tuple[FormerRoot, ...] = ()  # marble roots that workloads still trust


class LineageBegun(msgspec.Struct, frozen=True):
    """The lineage that an activation began."""

    id: bytes  # 16 random bytes
    key: bytes  # SHA-256 of the public key in its certificate
    end: int  # end of its certificate: microseconds since 1970, UTC


class Activated(Measured, frozen=True, omit_defaults=True):
    """A workload received its parameters. Without a quote, all measurements are empty."""

    time: Time
    marble_type: str
    uuid: str  # 36 characters, lower case
    names: tuple[str, ...]  # DNS names and IP addresses in its certificate
    counted: bool  # did its type have a limit?
    quoted: bool  # False: no quote, in simulation only
    # None: the type has no renewals. A single field, because an event with more than 15 fields has
    # another encoding.
    lineage: LineageBegun | None = None


class MarblesActivated(msgspec.Struct, frozen=True, tag="marbles-activated"):
    """Workloads were activated, in this order."""

    activations: tuple[Activated, ...]


class Renewed(msgspec.Struct, frozen=True, omit_defaults=True):
    """A workload received a certificate for a new key."""

    time: Time
    lineage: bytes
    presented: bytes  # SHA-256 of the public key in its handshake
    key: bytes  # SHA-256 of its new public key
    end: int  # end of the new certificate: microseconds since 1970, UTC
    platform: bytes = b""
    tcb_status: str = ""


class MarblesRenewed(msgspec.Struct, frozen=True, tag="marbles-renewed"):
    """Workloads renewed their certificates, in this order."""

    renewals: tuple[Renewed, ...]


class Scope(StrEnum):
    """The extent of a revocation: a workload, a marble type or a platform."""

    WORKLOAD = "workload"  # a marble type and a UUID: its certificates so far
    TYPE = "type"  # the certificates so far of a marble type, until a renewal with evidence
    PLATFORM = "platform"  # a machine, now and later


class WorkloadsRevoked(msgspec.Struct, frozen=True, tag="workloads-revoked"):
    """A user revoked workloads. The event affects the lineages that have begun before it."""

    time: Time
    user: str
    scope: Scope
    marble_type: str  # empty: a platform
    uuid: str  # only of a workload
    platform: bytes  # only of a platform
    reason: str


class CounterSet(msgspec.Struct, frozen=True, tag="counter-set"):
    """A workload raised a monotonic counter."""

    time: Time
    marble_type: str
    uuid: str
    name: str
    value: int


class LogBegun(msgspec.Struct, frozen=True, tag="log-begun"):
    """The transparency log of the deployment began, with the first manifest or later."""

    time: Time
    key: Secret  # Ed25519, 32 bytes: signs the checkpoints
    verifier: str  # the key's public half as a C2SP verifier key; its name is the log's origin
    signature: bytes  # by the root key over ``verifier``, DER
    imported: str = ""  # the object with the earlier update log; empty: none


class Published(msgspec.Struct, frozen=True, tag="published"):
    """These leaves were appended to the transparency log. The bytes are final."""

    leaves: tuple[bytes, ...]


class WitnessesAgreed(msgspec.Struct, frozen=True, tag="witnesses-agreed"):
    """The former witnesses have cosigned the update that replaced them."""

    time: Time


class LineExtended(msgspec.Struct, frozen=True, tag="line-extended"):
    """The line of the root received new entries. From now on the journal has event level 2."""

    items: tuple[LineItem, ...]


class FlushShared(msgspec.Struct, frozen=True, tag="flush-shared"):
    """From now on, replicas may append before a flush, and the journal has event level 4.

    So a record in the store may not be durable yet. A reader flushes such a record before an
    answer depends on the record. An older version cannot read this event, so that version stops
    before any such record. The event is also a piece of each base.
    """


class BaseBegun(msgspec.Struct, frozen=True, tag="base-begun"):
    """The first record of a base: all parts of the state that do not grow."""

    time: Time
    platform: str
    keys: CoordinatorKeys
    manifest: bytes
    signature: bytes
    recovery: RecoveryMaterial
    instance: bytes
    security_versions: dict[str, int]
    previous_root_secret: Secret
    previous_sizes: dict[str, int]
    pending: PendingUpdate | None
    collateral_marks: dict[str, Mark] = {}
    public_log: PublicLog | None = None  # the part in its files; ``Published`` events hold the rest


class BaseMembers(msgspec.Struct, frozen=True, tag="base-members"):
    """A piece of a base: the processes that share the store, newest last."""

    members: tuple[Member, ...]


class BaseLine(msgspec.Struct, frozen=True, tag="base-line"):
    """A piece of a base: some entries of the line of the root, oldest first."""

    items: tuple[LineItem, ...]


class NamedLineage(msgspec.Struct, frozen=True):
    """A lineage with its id."""

    id: bytes
    lineage: Lineage


class BaseLineages(msgspec.Struct, frozen=True, tag="base-lineages"):
    """A piece of a base: some of the lineages."""

    lineages: tuple[NamedLineage, ...]


class BaseRevocations(msgspec.Struct, frozen=True, tag="base-revocations"):
    """A piece of a base: the revoked platforms, and the former marble roots."""

    platforms: tuple[PlatformRevocation, ...]
    former_roots: tuple[FormerRoot, ...]


class BaseSecrets(msgspec.Struct, frozen=True, tag="base-secrets"):
    """A piece of a base: some of the secrets, or of their previous values."""

    secrets: dict[str, StoredSecret]
    previous: bool = False


class BaseActivations(msgspec.Struct, frozen=True, tag="base-activations"):
    """A piece of a base: the numbers of activations of marble types with a limit."""

    counts: dict[str, int]  # by marble type


class Counter(msgspec.Struct, frozen=True):
    """The value of one monotonic counter."""

    marble_type: str
    uuid: str
    name: str
    value: int


class BaseCounters(msgspec.Struct, frozen=True, tag="base-counters"):
    """A piece of a base: some of the monotonic counters."""

    counters: tuple[Counter, ...]


class BaseAudit(msgspec.Struct, frozen=True, tag="base-audit"):
    """A piece of a base: some activations of the audit trail, oldest first."""

    first: int  # number of the first line; the deployment's first activation has 0
    lines: tuple[bytes, ...]


class BaseLog(msgspec.Struct, frozen=True, tag="base-log"):
    """A piece of a base: some changes in the update log, oldest first."""

    lines: tuple[bytes, ...]


class BaseEnded(msgspec.Struct, frozen=True, tag="base-ended"):
    """The last piece of a base: the number of items of each kind, for a check of completeness."""

    secrets: int
    previous: int
    log_lines: int
    activations: int = 0  # marble types with a count
    counters: int = 0
    audit_lines: int = 0


BasePiece = (
    BaseMembers
    | BaseLineages
    | BaseRevocations
    | BaseLine
    | BaseSecrets
    | BaseActivations
    | BaseCounters
    | BaseAudit
    | BaseLog
    | BaseEnded
)
"""The pieces of a base after ``BaseBegun``; ``BaseEnded`` is the last."""

Event = (
    ManifestSet
    | Started
    | SecretsUploaded
    | CollateralSeen
    | PackagesUpdated
    | UpdateInitiated
    | UpdateAcknowledged
    | UpdateCancelled
    | ManifestUpdated
    | MarblesActivated
    | MarblesRenewed
    | WorkloadsRevoked
    | CounterSet
    | LogBegun
    | Published
    | WitnessesAgreed
    | LineExtended
    | FlushShared
    | BaseBegun
    | BasePiece
)

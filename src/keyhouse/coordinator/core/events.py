"""What happened: the vocabulary of the journal.

An event holds final bytes: keys, certificates, secrets, time. Nothing is generated or checked again
when it is applied. Tags and field names never change: add, never rename (the tests replay journals
that each release wrote).

An epoch's base is a run of the ``Base...`` events: the state piece by piece, each of bounded size.
"""

from typing import Final

import msgspec

from keyhouse.attestation import Mark
from keyhouse.authority import CoordinatorKeys, RecoveryMaterial, StoredSecret
from keyhouse.base.secret import Secret
from keyhouse.coordinator.core.state import LineItem, Member, Pending, PublicLog
from keyhouse.wire.secret_types import SecretType

LEVEL: Final = 2
"""Which kinds of events this version reads and writes. A kind that others do not know raises it.

Level 2 has ``LineExtended`` and ``BaseLine``.
"""

Time = int
"""Microseconds since 1970-01-01T00:00:00Z."""


class ManifestSet(msgspec.Struct, frozen=True, tag="manifest-set"):
    """The first manifest of a deployment took effect, with everything generated for it."""

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
    member: Member | None = None  # of a store that several processes share


class Uploaded(msgspec.Struct, frozen=True):
    """One uploaded secret."""

    name: str
    type: SecretType
    value: StoredSecret


class SecretsUploaded(msgspec.Struct, frozen=True, omit_defaults=True, tag="secrets-uploaded"):
    """A user uploaded secrets.

    The last of a batch has its leaves, as ``Published`` would: a record of their own costs half as
    much as the upload.
    """

    time: Time
    user: str
    uploads: tuple[Uploaded, ...]
    leaves: tuple[bytes, ...] = ()


class CollateralSeen(msgspec.Struct, frozen=True, tag="collateral-seen"):
    """A quote was verified with newer collateral than before; older one is refused afterwards.

    ``marks``: the parts that are newer, by name (``attestation.marks_of``).
    """

    time: Time
    marks: dict[str, Mark]


class PackagesUpdated(msgspec.Struct, frozen=True, tag="packages-updated"):
    """A user raised security versions; what the old intermediate CA had issued is replaced."""

    time: Time
    user: str
    versions: dict[str, int]  # by package
    keys: CoordinatorKeys  # same root, new intermediate
    secrets: dict[str, StoredSecret]  # the shared certificates, reissued


class UpdateInitiated(msgspec.Struct, frozen=True, tag="update-initiated"):
    """A user proposed a new manifest, which is the first acknowledgement of it."""

    time: Time
    user: str
    pending: Pending


class UpdateAcknowledged(msgspec.Struct, frozen=True, tag="update-acknowledged"):
    """A user acknowledged the pending manifest."""

    time: Time
    user: str
    pending: Pending  # with this acknowledgement


class UpdateCancelled(msgspec.Struct, frozen=True, tag="update-cancelled"):
    """The pending update was cancelled: by a user, or (empty) because it could not be applied."""

    time: Time
    user: str
    fingerprint: str


class ManifestUpdated(msgspec.Struct, frozen=True, tag="manifest-updated"):
    """A new manifest replaced the old one. It begins an epoch, so it is never a record."""

    time: Time
    keys: CoordinatorKeys  # same root, new intermediate, perhaps a new root secret
    manifest: bytes
    signature: bytes
    kept: tuple[str, ...]  # secrets with unchanged values, and unchanged previous values
    secrets: dict[str, StoredSecret]  # all others that have a value
    previous: dict[str, StoredSecret]
    previous_root_secret: Secret
    previous_sizes: dict[str, int]
    recovery: RecoveryMaterial
    notes: tuple[str, ...]  # what users should know about the update, as text
    former_witnesses: str = ""  # a policy whose quorum has to cosign this first


class Activated(msgspec.Struct, frozen=True, omit_defaults=True):
    """One workload was given its parameters. The values of the quote are empty if it had none."""

    time: Time
    marble_type: str
    uuid: str  # 36 characters, lower case
    names: tuple[str, ...]  # DNS names and IP addresses in its certificate
    counted: bool  # whether its type had a limit
    quoted: bool  # without a quote in simulation only
    platform: bytes = b""  # PPID, 16 bytes; SEV-SNP: CHIP_ID, 64 bytes
    mrenclave: bytes = b""
    mrsigner: bytes = b""
    tcb_status: str = ""
    mrtd: bytes = b""  # of a confidential VM, instead of the two of an enclave
    rtmrs: tuple[bytes, ...] = ()  # RTMR0 to RTMR3
    measurement: bytes = b""  # of a confidential VM of SEV-SNP


class MarblesActivated(msgspec.Struct, frozen=True, tag="marbles-activated"):
    """Workloads were activated, in this order."""

    activations: tuple[Activated, ...]


class CounterSet(msgspec.Struct, frozen=True, tag="counter-set"):
    """A workload raised one of its monotonic counters."""

    time: Time
    marble_type: str
    uuid: str
    name: str
    value: int


class LogBegun(msgspec.Struct, frozen=True, tag="log-begun"):
    """The transparency log of the deployment began, with its first manifest or later."""

    time: Time
    key: Secret  # Ed25519, 32 bytes: signs the checkpoints
    verifier: str  # the key's public half as a C2SP verifier key; its name is the log's origin
    signature: bytes  # by the root key over ``verifier``, DER
    imported: str = ""  # the object with the lines of the update log before it; empty: none


class Published(msgspec.Struct, frozen=True, tag="published"):
    """These leaves were appended to the transparency log: final bytes, never made again."""

    leaves: tuple[bytes, ...]


class WitnessesAgreed(msgspec.Struct, frozen=True, tag="witnesses-agreed"):
    """Former witnesses have cosigned that there are others now."""

    time: Time


class LineExtended(msgspec.Struct, frozen=True, tag="line-extended"):
    """The line of the root got these entries. The level of a journal is 2 from then on."""

    items: tuple[LineItem, ...]


class BaseBegun(msgspec.Struct, frozen=True, tag="base-begun"):
    """The first piece of a base: everything of the state that does not grow."""

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
    pending: Pending | None
    collateral_marks: dict[str, Mark] = {}
    public_log: PublicLog | None = None  # as far as its files have it; the rest is ``Published``


class BaseMembers(msgspec.Struct, frozen=True, tag="base-members"):
    """A piece of a base: who shares the store, if anybody does; the newest last."""

    members: tuple[Member, ...]


class BaseLine(msgspec.Struct, frozen=True, tag="base-line"):
    """A piece of a base: some entries of the line of the root, oldest first."""

    items: tuple[LineItem, ...]


class BaseSecrets(msgspec.Struct, frozen=True, tag="base-secrets"):
    """A piece of a base: some of the secrets, or of their previous values."""

    secrets: dict[str, StoredSecret]
    previous: bool = False


class BaseActivations(msgspec.Struct, frozen=True, tag="base-activations"):
    """A piece of a base: how often types with a limit were activated."""

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
    """A piece of a base: some lines of the audit trail, oldest first."""

    first: int  # the number of the first line, counted from the first activation ever
    lines: tuple[bytes, ...]


class BaseLog(msgspec.Struct, frozen=True, tag="base-log"):
    """A piece of a base: some lines of the update log, oldest first."""

    lines: tuple[bytes, ...]


class BaseEnded(msgspec.Struct, frozen=True, tag="base-ended"):
    """The last piece of a base: how much of each kind came before it."""

    secrets: int
    previous: int
    log_lines: int
    activations: int = 0  # marble types that were counted
    counters: int = 0
    audit_lines: int = 0


BasePiece = (
    BaseMembers
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
    | CounterSet
    | LogBegun
    | Published
    | WitnessesAgreed
    | LineExtended
    | BaseBegun
    | BasePiece
)

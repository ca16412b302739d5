"""Commands: the changes that clients request, ready for a decision.

A command names the state of its preparation. The slow and impure work comes before the command and
off the event loop: keys, certificates, shares, parsing. ``decide`` raises ``StaleError`` if the
state has changed since. The engine's caller then prepares the command again.
"""

from collections.abc import Iterable

import msgspec
from immutables import Map

from keyhouse.attestation import Mark
from keyhouse.authority import CoordinatorKeys, RecoveryMaterial, StoredSecret
from keyhouse.base.errors import InvalidError, Problem
from keyhouse.base.secret import Secret
from keyhouse.coordinator.core.approvals import Approved
from keyhouse.coordinator.core.events import Activated, LogBegun, Renewed, Scope, Uploaded
from keyhouse.coordinator.core.state import LineItem, MarbleInstance, Running


class PlanBasis(msgspec.Struct, frozen=True):
    """The facts of a state that determine the plan of an update. Equal facts give the same plan.

    Uploads and activations without an effect on the plan are left out. The decision compares the
    facts again, so they are few and cheap to compare.
    """

    manifest: bytes  # in force
    versions: Map[str, int]  # raised by package updates
    uploads: tuple[tuple[str, bool], ...]  # secrets to lose; has a value?
    limits: tuple[tuple[str, int, bool], ...]  # types with a new limit; reached?


def basis_of(
    state: Running, uploads: Iterable[str] = (), limits: Iterable[tuple[str, int]] = ()
) -> PlanBasis:
    """Return the facts of ``state`` that determine the plan of an update.

    ``uploads``: the secrets whose uploaded value the update drops. ``limits``: each marble type
    with a new limit of activations, and this limit.
    """
    return PlanBasis(
        manifest=state.manifest,
        versions=state.security_versions,
        uploads=tuple((name, name in state.secrets) for name in uploads),
        limits=tuple(
            (name, limit, state.activations.get(name, 0) >= limit) for name, limit in limits
        ),
    )


class StaleError(Exception):
    """The command was prepared against a former state."""


class CannotBeAppliedError(InvalidError):
    """A fully acknowledged update cannot take effect. The coordinator cancels the update."""

    code = "cannot-be-applied"


class NewLogKey(msgspec.Struct, frozen=True):
    """The key of a new transparency log, certified by the root key."""

    key: Secret  # Ed25519, 32 bytes
    verifier: str  # C2SP verifier key; its name is the origin of the log
    signature: bytes  # by the root key over ``verifier``, DER

    def begun(self, time: int, imported: str = "") -> LogBegun:
        """Return the event that begins the transparency log at ``time``.

        ``time``: microseconds since 1970. ``imported``: the hash of the object with the earlier
        update log; empty: none.
        """
        return LogBegun(
            time=time,
            key=self.key,
            verifier=self.verifier,
            signature=self.signature,
            imported=imported,
        )


class SetManifest(msgspec.Struct, frozen=True):
    """The command to set the first manifest."""

    root_cert: bytes  # the root that made the signatures
    manifest: bytes
    signature: bytes
    secrets: dict[str, StoredSecret]
    recovery: RecoveryMaterial
    dek: Secret  # for the engine; never part of an event
    store_id: bytes  # 16 random bytes: the name of the new journal
    recovery_index: bytes  # content of the file beside the journal
    log_key: NewLogKey
    warnings: tuple[Problem, ...]


class UploadSecrets(msgspec.Struct, frozen=True):
    """The command to store the secrets that a user uploads."""

    identity: bytes  # DER of the caller's leaf; the decision identifies the user
    manifest: bytes  # in force when the values were checked
    pending: bytes | None  # pending when the values were checked
    uploads: tuple[Uploaded, ...]


class MakeAnchor(msgspec.Struct, frozen=True):
    """The command to append an anchor: a leaf with the journal's present position."""

    nonce: bytes  # 16 new random bytes: no earlier cosignature covers them


class BeginLine(msgspec.Struct, frozen=True):
    """The command to begin the line of the root in a journal without a line.

    An older version of Keyhouse began such a journal. The engine waits until every coordinator of
    the store can read the event.
    """

    manifest: bytes  # in force when the items were prepared
    items: tuple[LineItem, ...]


class ShareFlush(msgspec.Struct, frozen=True):
    """The command to permit early appends: writers append before earlier records are flushed.

    The engine waits until every coordinator of the store can read the event.
    """


class AgreeWitnesses(msgspec.Struct, frozen=True):
    """The command to record that the former witnesses cosigned the update that replaced them."""

    former: tuple[str, ...]  # their policies


class UpdatePackages(msgspec.Struct, frozen=True):
    """The command to raise the security versions of packages."""

    identity: bytes  # DER of the caller's leaf; the decision identifies the user
    manifest: bytes  # in force when the versions were checked
    # The replaced certificate. The decision compares it, because a certificate that the old CA
    # issued in the meantime would be lost.
    intermediate: bytes
    versions: dict[str, int]
    keys: CoordinatorKeys
    secrets: dict[str, StoredSecret]
    warnings: tuple[Problem, ...] = ()  # do not refuse the update
    basis: PlanBasis | None = None  # of the plan that the caller confirmed
    plan: str = ""  # the digest of that plan
    approved: Approved | None = None
    update: bytes = b""  # the bytes of the request


class PreparedUpdate(msgspec.Struct, frozen=True):
    """A full update, ready to take effect: the content of its event, and the new data key."""

    based_on: bytes  # the replaced manifest
    intermediate: bytes  # the replaced CA certificate
    keys: CoordinatorKeys
    manifest: bytes
    signature: bytes
    kept: tuple[str, ...]
    secrets: dict[str, StoredSecret]
    previous: dict[str, StoredSecret]
    previous_root_secret: Secret
    previous_sizes: dict[str, int]
    recovery: RecoveryMaterial
    notes: tuple[str, ...]
    warnings: tuple[Problem, ...]
    overlap: int  # hours for which workloads trust the former marble root; 0: not at all
    dek: Secret | None  # new if the recovery keys change; never part of an event


class InitiateUpdate(msgspec.Struct, frozen=True):
    """The command to propose a new manifest, as a pending update."""

    identity: bytes
    based_on: bytes  # in force when the manifest was checked
    manifest: bytes
    application: PreparedUpdate | None  # only if this acknowledgement suffices
    notes: tuple[str, ...]
    warnings: tuple[Problem, ...]
    basis: PlanBasis | None = None  # of the plan that the caller confirmed
    plan: str = ""  # the digest of that plan
    approved: Approved | None = None


class AcknowledgeUpdate(msgspec.Struct, frozen=True):
    """The command to acknowledge the pending update."""

    identity: bytes
    manifest: bytes
    application: PreparedUpdate | None  # only if this acknowledgement is the last
    basis: PlanBasis | None = None  # of the plan that the caller confirmed
    plan: str = ""  # the digest of that plan
    approved: Approved | None = None


class CancelUpdate(msgspec.Struct, frozen=True):
    """The command to cancel the pending update."""

    identity: bytes | None  # None: the coordinator cancels, because the update cannot be applied
    manifest: bytes | None  # cancel only this manifest; None: any
    approved: Approved | None = None


class SeeCollateral(msgspec.Struct, frozen=True):
    """The command to record the age of verified collateral. Older collateral is refused later."""

    marks: dict[str, Mark]


class Activate(msgspec.Struct, frozen=True):
    """The command to record an activation of a type with ``MaxActivations`` or ``Renewal``.

    The record is durable before the workload gets its parameters.
    """

    manifest: bytes  # used to check and render the activation
    intermediate: bytes  # CA of its leaf; every package update replaces it
    activated: Activated


class Renew(msgspec.Struct, frozen=True):
    """The command to replace the key of a workload that renews its certificate."""

    manifest: bytes  # used to check the renewal
    intermediate: bytes  # CA of the new certificate
    renewed: Renewed


class RevokeWorkloads(msgspec.Struct, frozen=True):
    """The command to revoke a workload, a marble type or a platform, as a user requests."""

    identity: bytes  # DER of the caller's leaf; the decision identifies the user
    scope: Scope
    marble_type: str = ""
    uuid: str = ""  # 36 characters, lower case
    platform: bytes = b""
    reason: str = ""


class RecordActivations(msgspec.Struct, frozen=True):
    """The command to append activations of all remaining types to the audit trail.

    These types have neither ``MaxActivations`` nor ``Renewal``. The activations have already
    happened.
    """

    activations: tuple[Activated, ...]


class SetCounter(msgspec.Struct, frozen=True):
    """The command to raise a monotonic counter of a workload to at least ``value``."""

    marble_root: bytes  # CA certificate that verified the workload's certificate
    marble: MarbleInstance
    name: str
    value: int  # unsigned, 64 bits


Command = (
    SetManifest
    | UploadSecrets
    | UpdatePackages
    | InitiateUpdate
    | AcknowledgeUpdate
    | CancelUpdate
    | SeeCollateral
    | Activate
    | Renew
    | RevokeWorkloads
    | RecordActivations
    | SetCounter
    | MakeAnchor
    | AgreeWitnesses
    | BeginLine
    | ShareFlush
)

"""Commands: changes that callers ask for, ready to be decided.

A command names the state that it was prepared against. The slow and impure work (keys,
certificates, shares, parsing) was done before, off the event loop. ``decide`` raises ``StaleError``
if the state is another one by then, and the command is prepared again.
"""

from collections.abc import Iterable

import msgspec
from immutables import Map

from keyhouse.attestation import Mark
from keyhouse.authority import CoordinatorKeys, RecoveryMaterial, StoredSecret
from keyhouse.base.errors import InvalidError, Problem
from keyhouse.base.secret import Secret
from keyhouse.coordinator.core.approvals import Approved
from keyhouse.coordinator.core.events import Activated, LogBegun, Uploaded
from keyhouse.coordinator.core.state import LineItem, MarbleInstance, Running


class PlanBasis(msgspec.Struct, frozen=True):
    """The facts of a state that a plan depends on: while they are equal, the plan is the same.

    Uploads and activations that do not affect it are left out: the facts are compared again when
    the update is decided, so they are small and cheap to compare.
    """

    manifest: bytes  # in force
    versions: Map[str, int]  # raised by package updates
    uploads: tuple[tuple[str, bool], ...]  # names whose value would be lost, and if there is one
    limits: tuple[tuple[str, int, bool], ...]  # types with a new limit, and if it is reached


def basis_of(
    state: Running, uploads: Iterable[str] = (), limits: Iterable[tuple[str, int]] = ()
) -> PlanBasis:
    """Return the facts of ``state`` about these secrets, and these marble types with limits."""
    return PlanBasis(
        manifest=state.manifest,
        versions=state.security_versions,
        uploads=tuple((name, name in state.secrets) for name in uploads),
        limits=tuple(
            (name, limit, state.activations.get(name, 0) >= limit) for name, limit in limits
        ),
    )


def still_holds(state: Running, basis: PlanBasis | None) -> bool:
    """Tell whether a plan with ``basis`` is still the plan for ``state``. None (no plan): True."""
    if basis is None:
        return True
    uploads = (name for name, _ in basis.uploads)
    limits = ((name, limit) for name, limit, _ in basis.limits)
    return basis == basis_of(state, uploads, limits)


class StaleError(Exception):
    """The command was prepared against a state that is no longer the current one."""


class CannotBeAppliedError(InvalidError):
    """A fully acknowledged update that cannot take effect: it is cancelled."""

    code = "cannot-be-applied"


class LogKey(msgspec.Struct, frozen=True):
    """The key of a new transparency log, vouched for by the root key."""

    key: Secret  # Ed25519, 32 bytes
    verifier: str  # C2SP verifier key; its name is the origin of the log
    signature: bytes  # by the root key over ``verifier``, DER

    def begun(self, time: int, imported: str = "") -> LogBegun:
        """Return the event that begins the log."""
        return LogBegun(
            time=time,
            key=self.key,
            verifier=self.verifier,
            signature=self.signature,
            imported=imported,
        )


class SetManifest(msgspec.Struct, frozen=True):
    """Enforce the first manifest."""

    root_cert: bytes  # of the state it was prepared against: its signatures fit no other
    manifest: bytes
    signature: bytes
    secrets: dict[str, StoredSecret]
    recovery: RecoveryMaterial
    dek: Secret  # goes to the engine beside the event, never inside it
    store_id: bytes  # 16 random bytes: the name of the new journal
    recovery_index: bytes  # goes to the file beside the journal
    log_key: LogKey
    warnings: tuple[Problem, ...]


class UploadSecrets(msgspec.Struct, frozen=True):
    """Store what a user uploads."""

    identity: bytes  # DER of the caller's leaf: looked up again when it is decided
    manifest: bytes  # the manifest that the values were checked against
    pending: bytes | None  # the pending one, which they were checked against as well
    uploads: tuple[Uploaded, ...]


class MakeAnchor(msgspec.Struct, frozen=True):
    """Say in the transparency log where the journal stands."""

    nonce: bytes  # 16 random bytes, fresh: no cosignature over a log that has them can exist yet


class BeginLine(msgspec.Struct, frozen=True):
    """Begin the line of a root that was adopted, now that no other would stop at that event."""

    manifest: bytes  # in force when the items were made
    items: tuple[LineItem, ...]


class AgreeWitnesses(msgspec.Struct, frozen=True):
    """Note that all former witnesses have cosigned the log since they were replaced."""

    former: tuple[str, ...]  # their policies


class UpdatePackages(msgspec.Struct, frozen=True):
    """Raise security versions of packages."""

    identity: bytes  # DER of the caller's leaf: looked up again when it is decided
    manifest: bytes  # the manifest that it was checked against
    intermediate: (
        bytes  # certificate that it replaces: certificates that it issued meanwhile would be lost
    )
    versions: dict[str, int]
    keys: CoordinatorKeys
    secrets: dict[str, StoredSecret]
    warnings: tuple[Problem, ...] = ()  # about an update that is accepted nevertheless
    basis: PlanBasis | None = None  # of the plan that the caller is bound to
    plan: str = ""  # the digest of that plan
    approved: Approved | None = None
    update: bytes = b""  # as it was sent


class Application(msgspec.Struct, frozen=True):
    """A full update, ready to take effect: what its event will hold, and what goes beside it."""

    based_on: bytes  # the manifest that it replaces
    intermediate: bytes  # certificate of the CA that it replaces
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
    dek: Secret | None  # new with changed recovery keys; beside the event, never inside it


class InitiateUpdate(msgspec.Struct, frozen=True):
    """Propose a new manifest."""

    identity: bytes
    based_on: bytes  # the manifest that it was checked against
    manifest: bytes
    application: Application | None  # if this acknowledgement is enough
    notes: tuple[str, ...]
    warnings: tuple[Problem, ...]
    basis: PlanBasis | None = None  # of the plan that the caller is bound to
    plan: str = ""  # the digest of that plan
    approved: Approved | None = None


class AcknowledgeUpdate(msgspec.Struct, frozen=True):
    """Agree to the pending manifest."""

    identity: bytes
    manifest: bytes
    application: Application | None  # if this acknowledgement completes it
    basis: PlanBasis | None = None  # of the plan that the caller is bound to
    plan: str = ""  # the digest of that plan
    approved: Approved | None = None


class CancelUpdate(msgspec.Struct, frozen=True):
    """Cancel the pending update."""

    identity: bytes | None  # None: cancelled because it cannot be applied
    manifest: bytes | None  # only if this one is pending; None: any
    approved: Approved | None = None


class SeeCollateral(msgspec.Struct, frozen=True):
    """Remember how recent the collateral was that a quote was verified with."""

    marks: dict[str, Mark]


class Activate(msgspec.Struct, frozen=True):
    """Count an activation of a marble type with a limit, and audit it."""

    manifest: bytes  # that it was checked and rendered with
    intermediate: bytes  # certificate that issued its leaf; every package update replaces it
    activated: Activated


class RecordActivations(msgspec.Struct, frozen=True):
    """Audit activations without a limit, which have happened."""

    activations: tuple[Activated, ...]


class SetCounter(msgspec.Struct, frozen=True):
    """Raise a monotonic counter of a workload, if it is lower."""

    marble_root: bytes  # certificate that the workload's own was verified against
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
    | RecordActivations
    | SetCounter
    | MakeAnchor
    | AgreeWitnesses
    | BeginLine
)

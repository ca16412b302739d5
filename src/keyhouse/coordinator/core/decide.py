"""Decides whether a change may happen. Pure, complete, and without effect.

Activations of types without a limit are checked against the view, and recorded after they have
happened. So this module cannot refuse them. Activations with a limit are checked here a second
time: since their preparation, the state may have changed or the limit may be reached. Source:
``docs/reference/manifest.md``, "Sections"; ``docs/reference/activations.md``, "Counters".
"""

from typing import Final, assert_never

from immutables import Map

from keyhouse.attestation import Mark, newer_marks
from keyhouse.attestation.collateral.facts import OF_PLATFORM
from keyhouse.base.errors import ConflictError, ForbiddenError, NotFoundError, UnauthenticatedError
from keyhouse.base.printable import quoted
from keyhouse.coordinator.core import commands, events
from keyhouse.coordinator.core.approvals import require_newest
from keyhouse.coordinator.core.context import Context
from keyhouse.coordinator.core.decide_update import (
    acknowledge_update,
    cancel_update,
    initiate_update,
    require_nothing_pending,
    require_plan,
)
from keyhouse.coordinator.core.lineages import (
    MOST_PLATFORMS as MOST_REVOKED,
    is_revoked,
    lineage_of,
    require_continuable,
    require_platform,
    require_room,
)
from keyhouse.coordinator.core.phases import Operation, phase_of, require
from keyhouse.coordinator.core.policy import policy_of
from keyhouse.coordinator.core.state import Running, State, counter_of
from keyhouse.manifest import Action, FeatureGate

MOST_PLATFORMS: Final = 256
"""Platform families (FMSPC) with a remembered TCB info. No vendor has had as many so far.

Beyond this number the other marks still hold. The evaluation number of a TCB info must equal the
number of the QE identity, and the QE identity of each TEE is always remembered.
"""

COUNTERS: Final = 1000
"""Maximum of monotonic counters for each workload (marble type and UUID)."""


def decide(  # noqa: C901, PLR0911, PLR0912 a case each
    state: State, command: commands.Command, context: Context
) -> tuple[events.Event, ...]:
    """Decide ``command``: return its events, or raise ``RefusedError``. Changes nothing.

    Raises ``StaleError`` for a command that was prepared against a former state.
    """
    match command:
        case commands.SetManifest():
            return _set_manifest(state, command, context)
        case commands.UploadSecrets():
            return _upload_secrets(state, command, context)
        case commands.UpdatePackages():
            return _update_packages(state, command, context)
        case commands.InitiateUpdate():
            return initiate_update(_running(Operation.UPDATE, state), command, context)
        case commands.AcknowledgeUpdate():
            return acknowledge_update(_running(Operation.ACKNOWLEDGE, state), command, context)
        case commands.CancelUpdate():
            return cancel_update(_running(Operation.CANCEL, state), command, context)
        case commands.Activate():
            return activate(_running(Operation.ACTIVATE, state), command)
        case commands.Renew():
            return renew(_running(Operation.RENEW, state), command)
        case commands.RevokeWorkloads():
            return revoke_workloads(_running(Operation.REVOKE, state), command, context)
        case commands.RecordActivations():
            _running(Operation.ACTIVATE, state)
            return record_activations(command)
        case commands.SetCounter():
            return set_counter(_running(Operation.COUNT, state), command, context)
        case commands.MakeAnchor():
            return ()  # an anchor is a leaf only
        case commands.AgreeWitnesses():
            return _agree_witnesses(state, command, context)
        case commands.BeginLine():
            return _begin_line(state, command)
        case commands.ShareFlush():
            shares = not isinstance(state, Running) or state.shares_flush
            return () if shares else (events.FlushShared(),)
        case commands.SeeCollateral():
            return _see_collateral(state, command, context)
        case _ as never:
            assert_never(never)


def start(context: Context) -> events.Started:
    """Return the record that a process writes to the journal before it answers requests."""
    return events.Started(
        time=context.now,
        instance=context.instance,
        version=context.version,
        measurement=context.measurement,
        member=context.member,
    )


def _set_manifest(
    state: State, command: commands.SetManifest, context: Context
) -> tuple[events.Event, ...]:
    require(Operation.SET_MANIFEST, phase_of(state))
    context.first_manifest.require(state, command.manifest)
    context.require_kept(command.manifest)
    if command.root_cert != state.keys.root_cert:
        raise commands.StaleError
    manifest_set = events.ManifestSet(
        time=context.now,
        platform=context.platform,
        keys=state.keys,
        manifest=command.manifest,
        signature=command.signature,
        secrets=command.secrets,
        recovery=command.recovery,
    )
    return (manifest_set, command.log_key.begun(context.now), start(context))


def _upload_secrets(
    state: State, command: commands.UploadSecrets, context: Context
) -> tuple[events.Event, ...]:
    state = _running(Operation.WRITE_SECRETS, state)
    names = tuple(upload.name for upload in command.uploads)
    user = policy_of(state.manifest).authorize(command.identity, Action.WRITE_SECRET, names)
    pending = state.pending.manifest if state.pending else None
    if (command.manifest, command.pending) != (state.manifest, pending):
        raise commands.StaleError
    return (events.SecretsUploaded(time=context.now, user=user, uploads=command.uploads),)


def _update_packages(
    state: State, command: commands.UpdatePackages, context: Context
) -> tuple[events.Event, ...]:
    state = _running(Operation.UPDATE, state)
    policy = policy_of(state.manifest)
    user = policy.authorize(command.identity, Action.UPDATE_SECURITY_VERSION, command.versions)
    require_nothing_pending(state)
    if command.manifest != state.manifest or command.intermediate != state.keys.intermediate_cert:
        raise commands.StaleError
    require_plan(state, command.basis)
    require_newest(state, command.approved)
    updated = events.PackagesUpdated(
        time=context.now,
        user=user,
        versions=command.versions,
        keys=command.keys,
        secrets=command.secrets,
    )
    return (updated,)


def _agree_witnesses(
    state: State, command: commands.AgreeWitnesses, context: Context
) -> tuple[events.WitnessesAgreed, ...]:
    """Return ``WitnessesAgreed``; no event if the former witnesses have changed since."""
    log = state.public_log if isinstance(state, Running) else None
    agreed = log is not None and command.former and log.former == command.former
    return (events.WitnessesAgreed(time=context.now),) if agreed else ()


def _begin_line(state: State, command: commands.BeginLine) -> tuple[events.LineExtended, ...]:
    """Return ``LineExtended``; no event if the line has already begun."""
    if not isinstance(state, Running) or state.line:
        return ()
    if command.manifest != state.manifest:
        raise commands.StaleError
    return (events.LineExtended(command.items),)


def _see_collateral(
    state: State, command: commands.SeeCollateral, context: Context
) -> tuple[events.CollateralSeen, ...]:
    """Return the event with the newer marks of ``command``; no event if no mark is newer.

    Nothing is remembered without a manifest, because there is no journal.
    """
    if not isinstance(state, Running):
        return ()
    known = state.collateral_marks
    newer = newer_marks(command.marks, known)
    kept = {name: mark for name, mark in newer.items() if _has_room(known, name)}
    return (events.CollateralSeen(time=context.now, marks=kept),) if kept else ()


def _has_room(known: Map[str, Mark], name: str) -> bool:
    if name in known or not name.startswith(OF_PLATFORM):
        return True
    return sum(each.startswith(OF_PLATFORM) for each in known) < MOST_PLATFORMS


def _running(operation: Operation, state: State) -> Running:
    """Return ``state``, in which a manifest is in force.

    Raises a refusal if ``operation`` is not possible in the phase of ``state``.
    """
    require(operation, phase_of(state))
    assert isinstance(state, Running)  # noqa: S101 the table permits these operations only then
    return state


def activate(state: Running, command: commands.Activate) -> tuple[events.Event, ...]:
    """Return the event of an activation of a type with ``MaxActivations`` or ``Renewal``."""
    if (command.manifest, command.intermediate) != (state.manifest, state.keys.intermediate_cert):
        raise commands.StaleError
    require_below_limit(state, command.activated.marble_type)
    if state.revoked_platforms:
        require_platform(state, command.activated.platform)
    if command.activated.lineage is not None:
        require_room(state, command.activated.time)
    return (events.MarblesActivated(activations=(command.activated,)),)


def record_activations(command: commands.RecordActivations) -> tuple[events.Event, ...]:
    """Return the event of activations that have already happened, without a check."""
    return (events.MarblesActivated(activations=command.activations),)


def renew(state: Running, command: commands.Renew) -> tuple[events.Event, ...]:
    """Return the event of a renewal.

    The evidence was verified under the manifest in ``command``. Raises ``StaleError`` if this
    manifest is no longer in force.
    """
    if (command.manifest, command.intermediate) != (state.manifest, state.keys.intermediate_cert):
        raise commands.StaleError
    renewed = command.renewed
    lineage = lineage_of(state, renewed.lineage, renewed.time)
    require_continuable(lineage, renewed.presented, renewed.key)
    require_platform(state, renewed.platform)
    return (events.MarblesRenewed((renewed,)),)


def revoke_workloads(
    state: Running, command: commands.RevokeWorkloads, context: Context
) -> tuple[events.WorkloadsRevoked, ...]:
    """Return the event of a revocation; no event if the platform is already revoked.

    To revoke a platform, a user needs the permission for every marble type: the platform may run
    workloads of each type.
    """
    policy = policy_of(state.manifest)
    user = policy.identify(command.identity)
    one_type = command.scope is not events.Scope.PLATFORM
    types = (command.marble_type,) if one_type else policy.manifest.marbles
    policy.require(user, Action.REVOKE_WORKLOAD, types)
    if one_type and not any(is_revoked(lineage, command) for lineage in state.lineages.values()):
        named = f"{quoted(command.marble_type)} {command.uuid}".rstrip()
        raise NotFoundError(
            f"no workload of {named} has a certificate that this coordinator can revoke",
            hint="check type and UUID with keyhouse workload status: only types with Renewal have"
            " certificates that a user can revoke",
        )
    if command.platform:
        if any(each.platform == command.platform for each in state.revoked_platforms):
            return ()
        if len(state.revoked_platforms) >= MOST_REVOKED:
            raise ConflictError(
                f"the maximum of {MOST_REVOKED} platforms is revoked",
                hint="list the allowed platforms in the manifest's packages instead",
            )
    revoked = events.WorkloadsRevoked(
        time=context.now,
        user=user,
        scope=command.scope,
        marble_type=command.marble_type,
        uuid=command.uuid,
        platform=command.platform,
        reason=command.reason,
    )
    return (revoked,)


def require_below_limit(state: Running, marble_type: str) -> None:
    """Raise ``ForbiddenError`` if ``marble_type`` has reached its maximum number of activations."""
    limit = policy_of(state.manifest).manifest.marbles[marble_type].max_activations
    if limit and state.activations.get(marble_type, 0) >= limit:
        raise ForbiddenError(
            f"marble type {quoted(marble_type)} has reached its MaxActivations of {limit}",
            hint="raise MaxActivations with an update of the manifest: every start counts, also a"
            " restart of the same workload",
        )


def set_counter(
    state: Running, command: commands.SetCounter, context: Context
) -> tuple[events.Event, ...]:
    """Return the event that raises the counter; no event if the counter is already as high."""
    if not policy_of(state.manifest).has_gate(FeatureGate.MONOTONIC_COUNTER):
        raise ForbiddenError(
            "the manifest does not enable monotonic counters",
            hint="add MonotonicCounter to FeatureGates in the manifest",
        )
    if command.marble_root != state.keys.marble_root_cert:
        raise UnauthenticatedError(
            "an update of the manifest replaced the CA of the workload's certificate",
            hint="start the workload again",
        )
    if command.value <= counter_of(state, command.marble, command.name):
        return ()
    own = state.counters.get(command.marble)
    if own is not None and len(own) >= COUNTERS and command.name not in own:
        raise ConflictError(f"this workload has the maximum of {COUNTERS} counters", hint=_REUSE)
    marble_type, uuid = command.marble
    raised = events.CounterSet(
        time=context.now,
        marble_type=marble_type,
        uuid=uuid,
        name=command.name,
        value=command.value,
    )
    return (raised,)


_REUSE: Final = "use fewer names; counters are never deleted"

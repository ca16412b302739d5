"""Whether a change may happen: pure, complete, and without effect."""

from typing import Final, assert_never

from immutables import Map

from keyhouse.attestation import Mark, newer_marks
from keyhouse.attestation.collateral.marks import OF_PLATFORM
from keyhouse.coordinator.core import commands, events
from keyhouse.coordinator.core.approvals import require_newest
from keyhouse.coordinator.core.context import Context
from keyhouse.coordinator.core.decide_activation import activate, record_activations, set_counter
from keyhouse.coordinator.core.decide_update import (
    acknowledge_update,
    cancel_update,
    initiate_update,
    require_nothing_pending,
)
from keyhouse.coordinator.core.phases import Operation, phase_of, require
from keyhouse.coordinator.core.policy import policy_of
from keyhouse.coordinator.core.state import Running, State
from keyhouse.manifest import Action

MOST_PLATFORMS: Final = 256
"""Platform families (FMSPC) whose TCB info is remembered; more than any vendor has had so far.

Beyond it the other marks still hold: the evaluation number of a platform's TCB info has to be that
of the QE identity, which is remembered for each TEE.
"""


def decide(  # noqa: C901, PLR0911, PLR0912 a case each
    state: State, command: commands.Command, context: Context
) -> tuple[events.Event, ...]:
    """Decide ``command``: return its events, or raise ``RefusedError``. Changes nothing.

    Raises ``StaleError`` for a command that was prepared against another state.
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
        case commands.RecordActivations():
            _running(Operation.ACTIVATE, state)
            return record_activations(command)
        case commands.SetCounter():
            return set_counter(_running(Operation.COUNT, state), command, context)
        case commands.MakeAnchor():
            return ()  # no event of its own: it is a leaf
        case commands.AgreeWitnesses():
            return _agree_witnesses(state, command, context)
        case commands.SeeCollateral():
            return _see_collateral(state, command, context)
        case _ as never:
            assert_never(never)


def start(context: Context) -> events.Started:
    """Return the record that a process commits before it serves a journal."""
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
    if not commands.still_holds(state, command.basis):
        raise commands.StaleError
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
    """Return the event, unless the witnesses were replaced again meanwhile."""
    log = state.public_log if isinstance(state, Running) else None
    agreed = log is not None and command.former and log.former == command.former
    return (events.WitnessesAgreed(time=context.now),) if agreed else ()


def _see_collateral(
    state: State, command: commands.SeeCollateral, context: Context
) -> tuple[events.CollateralSeen, ...]:
    """Return the event that remembers what is newer in ``command``; no event if nothing is.

    Without a manifest there is no journal, and nothing is remembered.
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
    """Return ``state`` if ``operation``, which needs a running one, is possible in it."""
    require(operation, phase_of(state))
    assert isinstance(state, Running)  # noqa: S101 the table says so
    return state

"""Decides whether a user may initiate, acknowledge or cancel a full update. Pure.

The initiation fixes the list of users who may acknowledge: all users with ``UpdateManifest`` in the
manifest in force. The last required acknowledgement and the application of the update are one
change, so no state exists between them. Source: ``docs/how-to/update-with-several-parties.md``,
"The rules".
"""

from keyhouse.base.errors import ConflictError, ForbiddenError, NotFoundError
from keyhouse.base.printable import quoted
from keyhouse.coordinator.core import commands, events
from keyhouse.coordinator.core.approvals import require_newest
from keyhouse.coordinator.core.context import Context
from keyhouse.coordinator.core.lineages import former_roots
from keyhouse.coordinator.core.policy import policy_of
from keyhouse.coordinator.core.state import FormerRoot, PendingUpdate, Running
from keyhouse.manifest import Action, ServeCondition, fingerprint


def initiate_update(
    state: Running, command: commands.InitiateUpdate, context: Context
) -> tuple[events.Event, ...]:
    """Return the event that initiates an update.

    If the acknowledgement of the initiator suffices, also return the event that applies the update.
    """
    user = policy_of(state.manifest).authorize_update(command.identity)
    require_nothing_pending(state)
    if command.based_on != state.manifest:
        raise commands.StaleError
    require_plan(state, command.basis)
    require_newest(state, command.approved)
    context.require_kept(command.manifest)
    pending = proposed(state, user, command.manifest)
    initiated = events.UpdateInitiated(time=context.now, user=user, pending=pending)
    return (initiated, *_applied(state, pending, command.application, context))


def acknowledge_update(
    state: Running, command: commands.AcknowledgeUpdate, context: Context
) -> tuple[events.Event, ...]:
    """Return the acknowledgement and, with the last required acknowledgement, the application."""
    user = policy_of(state.manifest).identify(command.identity)
    pending = require_acknowledger(state, user, command.manifest).acknowledged_by(user)
    require_plan(state, command.basis)
    require_newest(state, command.approved)
    acknowledged = events.UpdateAcknowledged(time=context.now, user=user, pending=pending)
    return (acknowledged, *_applied(state, pending, command.application, context))


def cancel_update(
    state: Running, command: commands.CancelUpdate, context: Context
) -> tuple[events.Event, ...]:
    """Return the event that cancels the pending update."""
    user = ""
    if command.identity is not None:
        user = policy_of(state.manifest).authorize_update(command.identity)
    pending = require_pending(state)
    if command.identity is not None and not context.removed_may_cancel:
        _require_user_stays(command.identity, user, pending)
    if command.manifest is not None and command.manifest != pending.manifest:
        raise NotFoundError(
            "this update is no longer pending",
            hint="read the pending update with keyhouse manifest update get",
        )
    if command.identity is not None:
        require_newest(state, command.approved)
    cancelled = events.UpdateCancelled(
        time=context.now, user=user, fingerprint=fingerprint(pending.manifest)
    )
    return (cancelled,)


def proposed(state: Running, user: str, manifest: bytes) -> PendingUpdate:
    """Return the update that ``user`` would initiate, acknowledged by this user only.

    The update replaces the manifest in force by ``manifest``.
    """
    policy = policy_of(state.manifest)
    users = policy.permissions.holders(Action.UPDATE_MANIFEST)
    needed = policy.manifest.config.update_threshold or len(users)
    return PendingUpdate(manifest=manifest, users=users, needed=needed, acknowledged=(user,))


def require_plan(state: Running, basis: commands.PlanBasis | None) -> None:
    """Verify that a plan with ``basis`` is valid for ``state``. None: the user confirmed no plan.

    Raises ``StaleError``.
    """
    if basis is None:
        return
    uploads = (name for name, _ in basis.uploads)
    limits = ((name, limit) for name, limit, _ in basis.limits)
    if basis != commands.basis_of(state, uploads, limits):
        raise commands.StaleError


def require_nothing_pending(state: Running) -> None:
    """Raise ``ConflictError`` while an update is pending."""
    if state.pending is not None:
        raise ConflictError(
            "an update is pending already",
            hint="acknowledge or cancel the pending update first; keyhouse manifest update get"
            " shows the update",
        )


def require_pending(state: Running) -> PendingUpdate:
    """Return the pending update. Raises ``NotFoundError`` if there is none."""
    if state.pending is None:
        raise NotFoundError(
            "no update is pending", hint="initiate an update with keyhouse manifest update apply"
        )
    return state.pending


def require_acknowledger(state: Running, user: str, manifest: bytes) -> PendingUpdate:
    """Return the pending update, if ``user`` may acknowledge it and uploaded the same bytes.

    Raises:
        NotFoundError: no update is pending. ForbiddenError: the user is not on the list of the
            update. ConflictError: the uploaded manifest differs.
    """
    pending = require_pending(state)
    if user not in pending.users:
        raise ForbiddenError(
            f"user {quoted(user)} may not acknowledge this update",
            hint="let another user acknowledge the update:"
            f" {', '.join(quoted(name) for name in pending.users)}",
        )
    if manifest != pending.manifest:
        raise ConflictError(
            "the uploaded manifest is not byte for byte the pending manifest",
            hint=f"upload the manifest with the fingerprint {fingerprint(pending.manifest)}",
        )
    return pending


def _require_user_stays(identity: bytes, user: str, pending: PendingUpdate) -> None:
    if policy_of(pending.manifest).permissions.find_user(identity) is None:
        raise ForbiddenError(
            f"this update removes the user {quoted(user)}, who may not cancel the update",
            hint="let another user with UpdateManifest cancel the update; see"
            " --no-cancel-by-removed",
        )


def _applied(
    state: Running,
    pending: PendingUpdate,
    application: commands.PreparedUpdate | None,
    context: Context,
) -> tuple[events.Event, ...]:
    """Return the event that applies ``pending``; no event while acknowledgements are missing.

    ``application``: the prepared update. Raises ``StaleError`` if it is None or outdated.
    """
    if pending.missing:
        return ()
    if application is None or not _fits(state, application):
        raise commands.StaleError
    event = events.ManifestUpdated(
        time=context.now,
        keys=application.keys,
        manifest=application.manifest,
        signature=application.signature,
        kept=application.kept,
        secrets=application.secrets,
        previous=application.previous,
        previous_root_secret=application.previous_root_secret,
        previous_sizes=application.previous_sizes,
        recovery=application.recovery,
        notes=application.notes,
        former_witnesses=_former_witnesses(state.manifest, application.manifest),
        former_roots=_former_roots(state, application, context),
    )
    return (event,)


def _former_roots(
    state: Running, application: commands.PreparedUpdate, context: Context
) -> tuple[FormerRoot, ...]:
    return former_roots(state, application.overlap, context.now) if application.overlap else ()


def _former_witnesses(old: bytes, new: bytes) -> str:
    """Return the witness policy of the manifest ``old`` if ``new`` has a different policy.

    Empty if the policies are equal, or if ``old`` does not require witnesses (``Serve:
    Witnessed``).
    """
    before, after = (policy_of(each).manifest.config.transparency for each in (old, new))
    if before is None or before.serve != ServeCondition.WITNESSED:
        return ""
    return "" if after is not None and after.witnesses == before.witnesses else before.witnesses


def _fits(state: Running, application: commands.PreparedUpdate) -> bool:
    """Return whether the prepared update ``application`` still fits ``state``.

    The templates of its manifest must accept all uploads since its preparation.
    """
    if application.based_on != state.manifest:
        return False
    if application.intermediate != state.keys.intermediate_cert:
        return False
    templates = policy_of(application.manifest).templates
    return not any(
        templates.check_upload(name, state.secrets[name])
        for name in application.kept
        if name in state.secrets
    )

"""Whether a full update may be initiated, acknowledged or cancelled: pure, like ``decide``.

The list of users who acknowledge is fixed when an update is initiated: all users with
``UpdateManifest`` in the manifest that is then in force. The last acknowledgement that is needed
and the application of the update are one change.
Source: manifest format, "Full update and acknowledgement".
"""

from keyhouse.base.errors import ConflictError, ForbiddenError, NotFoundError
from keyhouse.base.printable import quoted
from keyhouse.coordinator.core import commands, events
from keyhouse.coordinator.core.approvals import require_newest
from keyhouse.coordinator.core.context import Context
from keyhouse.coordinator.core.policy import policy_of
from keyhouse.coordinator.core.state import Pending, Running
from keyhouse.manifest import Action, Serving, fingerprint


def initiate_update(
    state: Running, command: commands.InitiateUpdate, context: Context
) -> tuple[events.Event, ...]:
    """Return the events: the update is pending, or it is applied at once."""
    user = policy_of(state.manifest).authorize_update(command.identity)
    require_nothing_pending(state)
    if command.based_on != state.manifest or not commands.still_holds(state, command.basis):
        raise commands.StaleError
    require_newest(state, command.approved)
    context.require_kept(command.manifest)
    pending = proposed(state, user, command.manifest)
    initiated = events.UpdateInitiated(time=context.now, user=user, pending=pending)
    return (initiated, *_applied(state, pending, command.application, context))


def acknowledge_update(
    state: Running, command: commands.AcknowledgeUpdate, context: Context
) -> tuple[events.Event, ...]:
    """Return the acknowledgement and, if it is the last that was needed, the application."""
    user = policy_of(state.manifest).identify(command.identity)
    pending = require_acknowledger(state, user, command.manifest).acknowledged_by(user)
    if not commands.still_holds(state, command.basis):
        raise commands.StaleError
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
        _require_not_removed(command.identity, user, pending)
    if command.manifest is not None and command.manifest != pending.manifest:
        raise NotFoundError("this update is no longer pending")
    if command.identity is not None:
        require_newest(state, command.approved)
    cancelled = events.UpdateCancelled(
        time=context.now, user=user, fingerprint=fingerprint(pending.manifest)
    )
    return (cancelled,)


def proposed(state: Running, user: str, manifest: bytes) -> Pending:
    """Return the update as ``user`` would initiate it now: acknowledged by this user only."""
    policy = policy_of(state.manifest)
    users = policy.permissions.holders(Action.UPDATE_MANIFEST)
    needed = policy.manifest.config.update_threshold or len(users)
    return Pending(manifest=manifest, users=users, needed=needed, acknowledged=(user,))


def require_nothing_pending(state: Running) -> None:
    """Raise ``ConflictError`` while an update is pending."""
    if state.pending is not None:
        raise ConflictError(
            "an update is pending",
            hint="acknowledge it or cancel it first; keyhouse manifest update get shows it",
        )


def require_pending(state: Running) -> Pending:
    """Return the pending update. Raises ``NotFoundError`` if there is none."""
    if state.pending is None:
        raise NotFoundError(
            "no update is pending", hint="initiate one with keyhouse manifest update apply"
        )
    return state.pending


def require_acknowledger(state: Running, user: str, manifest: bytes) -> Pending:
    """Return the pending update, if ``user`` may acknowledge it and uploaded the same bytes.

    Raises:
        NotFoundError: nothing is pending. ForbiddenError: not on its list.
        ConflictError: other bytes.
    """
    pending = require_pending(state)
    if user not in pending.users:
        raise ForbiddenError(
            f"user {quoted(user)} is not among those who acknowledge this update",
            hint=f"these are: {', '.join(quoted(name) for name in pending.users)}",
        )
    if manifest != pending.manifest:
        raise ConflictError(
            "the manifest is not the pending one, byte for byte",
            hint=f"its fingerprint is {fingerprint(pending.manifest)}",
        )
    return pending


def _require_not_removed(identity: bytes, user: str, pending: Pending) -> None:
    if policy_of(pending.manifest).permissions.find_user(identity) is None:
        raise ForbiddenError(
            f"user {quoted(user)} is removed by this update and may not cancel it",
            hint="another user with UpdateManifest may; see --no-cancel-by-removed",
        )


def _applied(
    state: Running, pending: Pending, application: commands.Application | None, context: Context
) -> tuple[events.Event, ...]:
    """Return the application of ``pending`` if no more acknowledgement is needed."""
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
    )
    return (event,)


def _former_witnesses(old: bytes, new: bytes) -> str:
    """Return the policy of witnesses that ``new`` changes, if secrets were served by it."""
    before, after = (policy_of(each).manifest.config.transparency for each in (old, new))
    if before is None or before.serve != Serving.WITNESSED:
        return ""
    return "" if after is not None and after.witnesses == before.witnesses else before.witnesses


def _fits(state: Running, application: commands.Application) -> bool:
    """Tell whether ``application`` fits the state, with every value uploaded since it was made."""
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

"""Checks an update, and does the slow work before its decision or its plan.

The check of the permission is first. A plan has the same checks, but makes no keys. The functions
run off the event loop.
"""

from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from keyhouse import authority
from keyhouse.base.errors import ConflictError, InvalidError
from keyhouse.coordinator.core import commands
from keyhouse.coordinator.core.approvals import Approved, require_fits, require_newest
from keyhouse.coordinator.core.context import moment
from keyhouse.coordinator.core.decide_update import (
    proposed,
    require_acknowledger,
    require_nothing_pending,
    require_pending,
)
from keyhouse.coordinator.core.policy import policy_of, versions_in_force
from keyhouse.coordinator.core.state import PendingUpdate, Running
from keyhouse.coordinator.full_check import check_fully
from keyhouse.coordinator.update.apply import prepare_application, require_fitting
from keyhouse.coordinator.update.plan import Planned, plan_manifest, plan_packages
from keyhouse.coordinator.update.retained import notes_of_update
from keyhouse.manifest import Action, Manifest
from keyhouse.manifest.check import (
    PackageUpdate,
    check_package_update,
    read_package_update,
    warnings_of_versions,
)
from keyhouse.transparency.approval import DecisionKind
from keyhouse.wire.plan import Plan, PlanData, plan_digest


class PlanChangedError(ConflictError):
    """The plan of the update differs from the plan that the user has reviewed."""

    code = "plan-changed"


class SentUpdate(Struct, frozen=True):
    """An update as sent by a caller, or the update that a caller acknowledges.

    ``identity``: the DER of the caller's certificate, if there is one. ``plan``: the digest of the
    plan that the caller has reviewed; empty: none. ``approved``: the signed approval, if there is
    one.
    """

    identity: bytes | None
    raw: bytes
    plan: str = ""
    approved: Approved | None = None


def prepare_plan(state: Running, identity: bytes | None, raw: bytes, *, now: int) -> PlanData:
    """Return the plan of the update ``raw`` for a caller who may make or acknowledge the update.

    ``now`` is in microseconds since 1970.

    Raises:
        UnauthenticatedError, ForbiddenError: the caller may not make this update. ConflictError:
            another update is pending. InvalidError: every problem of the update. TooLargeError: the
            plan has more changes than a person could review.
    """
    policy_of(state.manifest).identify(identity)
    update = read_package_update(raw)
    if update is not None:
        return _plan_of_packages(state, identity, raw, update, now=now)
    return _plan_of_manifest(state, identity, raw, now=now)


def _plan_of_manifest(state: Running, identity: bytes | None, raw: bytes, *, now: int) -> PlanData:
    user = policy_of(state.manifest).authorize_update(identity)
    if state.pending is None:
        pending = replace(proposed(state, user, raw), acknowledged=())
    else:
        pending = _pending(state, user, raw)
    checked = check_fully(raw, keys=state.keys, now=moment(now))
    require_fitting(state, raw)
    plan = plan_manifest(state, policy_of(raw)).plan
    old, new = policy_of(state.manifest).manifest, checked.manifest
    user_defined = (name for name in plan.kept if new.secrets[name].user_defined)
    return PlanData(
        digest=plan_digest(plan),
        plan=plan,
        acknowledged=pending.acknowledged,
        missing_acknowledgments=pending.missing,
        missing_users=pending.missing_users,
        not_uploaded=tuple(name for name in user_defined if name not in state.secrets),
        notes=(*notes_of_update(state, old, new), *policy_of(raw).caveats),
        warnings=checked.warnings,
    )


def _pending(state: Running, user: str, raw: bytes) -> PendingUpdate:
    """Return the pending update, if ``user`` may acknowledge it and ``raw`` is its manifest.

    Raises ``ConflictError`` for another manifest, and as ``require_acknowledger``.
    """
    if state.pending is not None and state.pending.manifest != raw:
        require_nothing_pending(state)
    return require_acknowledger(state, user, raw)


def _plan_of_packages(
    state: Running, identity: bytes | None, raw: bytes, update: PackageUpdate, *, now: int
) -> PlanData:
    versions = _checked_versions(state, identity, update)
    plan: Plan = plan_packages(state, raw, versions, moment(now)).plan
    return PlanData(
        digest=plan_digest(plan),
        plan=plan,
        acknowledged=(),
        missing_acknowledgments=0,
        missing_users=(),
        not_uploaded=(),
        notes=(),
        warnings=(),
    )


def prepare_update(
    state: Running, sent: SentUpdate, *, now: int
) -> commands.UpdatePackages | commands.InitiateUpdate:
    """Check an uploaded update and prepare its command. The check of the permission is first.

    Raises:
        UnauthenticatedError, ForbiddenError: the caller may not make this update. ConflictError:
            another update is pending. PlanChangedError: the plan has changed. ApprovalRefusedError,
            ApprovalOutdatedError, ApprovalMissingError: the approval is not valid. InvalidError:
            every problem of the update.
    """
    policy_of(state.manifest).identify(sent.identity)
    update = read_package_update(sent.raw)
    if update is None:
        return _prepare_full(state, sent, now=now)
    versions = _checked_versions(state, sent.identity, update)
    _require_signed(state, sent, DecisionKind.PACKAGES)
    command = _prepare_packages(state, sent, versions, now=now)
    if not sent.plan:
        return command
    planned = plan_packages(state, sent.raw, versions, moment(now))
    return replace(command, basis=_bound(planned, sent.plan))


def prepare_acknowledgement(
    state: Running, sent: SentUpdate, *, now: int
) -> commands.AcknowledgeUpdate:
    """Check an acknowledgement.

    For the last required acknowledgement, also prepare the application.

    Raises:
        UnauthenticatedError, ForbiddenError, NotFoundError, ConflictError: the caller may not
            acknowledge, or not this manifest. ApprovalRefusedError, ApprovalOutdatedError,
            ApprovalMissingError: the approval is not valid. PlanChangedError: the plan has changed.
            CannotBeAppliedError: the update is fully acknowledged, but its manifest cannot take
            effect any more.
    """
    user = policy_of(state.manifest).identify(sent.identity)
    pending = require_acknowledger(state, user, sent.raw).acknowledged_by(user)
    _require_signed(state, sent, DecisionKind.APPROVE)
    basis = _basis(state, sent)
    application = None
    if not pending.missing:
        try:
            application = prepare_application(state, sent.raw, now=now)
        except InvalidError as invalid:
            raise commands.CannotBeAppliedError(
                "the update cannot be applied", invalid.problems
            ) from None
    assert sent.identity is not None  # noqa: S101 it was identified
    return commands.AcknowledgeUpdate(
        identity=sent.identity,
        manifest=sent.raw,
        application=application,
        basis=basis,
        plan=sent.plan,
        approved=sent.approved,
    )


def prepare_cancellation(
    state: Running, identity: bytes, approved: Approved | None
) -> commands.CancelUpdate:
    """Check the signed approval of a cancellation. The decision checks the permission again.

    Raises:
        UnauthenticatedError, ForbiddenError, NotFoundError: the caller may not cancel, or no update
            is pending. ApprovalRefusedError, ApprovalOutdatedError, ApprovalMissingError: the
            approval is not valid.
    """
    policy_of(state.manifest).authorize_update(identity)
    manifest = require_pending(state).manifest
    _require_signed(state, SentUpdate(identity, manifest, approved=approved), DecisionKind.CANCEL)
    return commands.CancelUpdate(identity, None if approved is None else manifest, approved)


def _require_signed(state: Running, sent: SentUpdate, decision: DecisionKind) -> None:
    """Verify that the approval of ``decision`` about ``sent`` is valid, or not required."""
    user = policy_of(state.manifest).identify(sent.identity)
    require_fits(state, user, sent.approved, decision, sent.raw, sent.plan)
    require_newest(state, sent.approved)


def _basis(state: Running, sent: SentUpdate) -> commands.PlanBasis | None:
    """Return the facts behind the plan that the caller has reviewed.

    None: the request ``sent`` has no digest of a plan.
    """
    return _bound(plan_manifest(state, policy_of(sent.raw)), sent.plan) if sent.plan else None


def _bound(planned: Planned, expected: str) -> commands.PlanBasis:
    """Return the facts of the state that determine the plan in ``planned``.

    Raises ``PlanChangedError`` unless the digest of this plan is ``expected``, the digest of the
    plan that the user has reviewed.
    """
    digest = plan_digest(planned.plan)
    if digest != expected:
        raise PlanChangedError(
            f"the plan has changed since the review: its digest is now {digest}",
            hint="review the plan again with keyhouse manifest plan; send its digest with"
            " --expect-plan",
        )
    return planned.basis


def _prepare_full(state: Running, sent: SentUpdate, *, now: int) -> commands.InitiateUpdate:
    user = policy_of(state.manifest).authorize_update(sent.identity)
    require_nothing_pending(state)
    _require_signed(state, sent, DecisionKind.PROPOSE)
    # The application is made even if further acknowledgements are missing. The caller then learns
    # every problem now.
    application = prepare_application(state, sent.raw, now=now)
    basis = _basis(state, sent)
    waits = proposed(state, user, sent.raw).missing
    assert sent.identity is not None  # noqa: S101 it was authorized
    return commands.InitiateUpdate(
        identity=sent.identity,
        based_on=state.manifest,
        manifest=sent.raw,
        application=None if waits else application,
        notes=application.notes,
        warnings=application.warnings,
        basis=basis,
        plan=sent.plan,
        approved=sent.approved,
    )


def _prepare_packages(
    state: Running, sent: SentUpdate, versions: dict[str, int], *, now: int
) -> commands.UpdatePackages:
    keys = authority.renew_intermediate(state.keys, moment(now))
    assert sent.identity is not None  # noqa: S101 it was identified
    return commands.UpdatePackages(
        identity=sent.identity,
        manifest=state.manifest,
        intermediate=state.keys.intermediate_cert,
        versions=versions,
        keys=keys,
        secrets=_reissued(policy_of(state.manifest).manifest, keys, moment(now)),
        warnings=warnings_of_versions(versions),
        plan=sent.plan,
        approved=sent.approved,
        update=sent.raw,
    )


def _checked_versions(
    state: Running, identity: bytes | None, update: PackageUpdate
) -> dict[str, int]:
    """Return the versions of a package update, for a caller who may make the update now."""
    policy = policy_of(state.manifest)
    policy.authorize(identity, Action.UPDATE_SECURITY_VERSION, update.packages)
    require_nothing_pending(state)
    return check_package_update(update, versions_in_force(state))


def _reissued(
    manifest: Manifest, keys: authority.CoordinatorKeys, now: datetime
) -> dict[str, authority.StoredSecret]:
    """Return the shared generated certificates, reissued with new keys.

    The CA is the new intermediate in ``keys``. An expired certificate is not reissued.
    """
    issued: dict[str, authority.StoredSecret] = {}
    for name, definition in sorted(manifest.secrets.items()):
        if authority.is_generated_with_manifest(definition) and definition.type.is_certificate:
            try:
                issued[name] = authority.generate(definition, name=name, keys=keys, now=now)
            except InvalidError:
                # NotAfter has passed, so the old certificate stays. An expired certificate must not
                # prevent an operator from excluding a vulnerable version.
                continue
    return issued

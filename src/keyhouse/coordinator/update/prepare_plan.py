"""Planning an update: the same checks as for making it, and then what it would do. Makes nothing.

Called off the event loop, like ``prepare_update``.
"""

from msgspec.structs import replace

from keyhouse.base.errors import Conflicting
from keyhouse.coordinator.clock import moment
from keyhouse.coordinator.core.decide_update import (
    proposed,
    require_acknowledger,
    require_nothing_pending,
)
from keyhouse.coordinator.core.policy import policy_of
from keyhouse.coordinator.core.state import Pending, Running
from keyhouse.coordinator.core.versions import versions_in_force
from keyhouse.coordinator.full_check import check_fully
from keyhouse.coordinator.update.apply import require_kept_values_fit
from keyhouse.coordinator.update.plan import Planned, plan_manifest, plan_packages
from keyhouse.coordinator.update.retained import notes_of_update
from keyhouse.manifest import Action, PackageUpdate, check_package_update, read_package_update
from keyhouse.wire.plan import Plan, PlanData, plan_digest

__all__ = ["PlanChanged", "prepare_plan", "require_plan"]


class PlanChanged(Conflicting):
    """What would happen is not what was reviewed."""

    code = "plan-changed"


def prepare_plan(state: Running, identity: bytes | None, raw: bytes, *, now: int) -> PlanData:
    """Return what the update ``raw`` would do, to a caller who may make or acknowledge it.

    ``now`` is in microseconds since 1970.

    Raises:
        Unauthenticated, Forbidden: the caller may not make this update.
        Conflicting: another update is pending.
        Invalid: every problem of the update.
        TooLarge: there is more to tell than a person could review.
    """
    policy_of(state.manifest).identify(identity)
    update = read_package_update(raw)
    if update is not None:
        return _plan_of_packages(state, identity, raw, update, now=now)
    return _plan_of_manifest(state, identity, raw, now=now)


def require_plan(planned: Planned, expected: str) -> None:
    """Raise ``PlanChanged`` unless ``planned`` has the digest ``expected``, 64 hex digits."""
    digest = plan_digest(planned.plan)
    if digest != expected:
        raise PlanChanged(
            f"this is no longer the plan that was reviewed: the plan is now {digest}",
            hint="read it, POST /api/v2/plan or keyhouse manifest plan, and send its digest",
        )


def _plan_of_manifest(state: Running, identity: bytes | None, raw: bytes, *, now: int) -> PlanData:
    user = policy_of(state.manifest).authorize_update(identity)
    if state.pending is None:
        pending = replace(proposed(state, user, raw), acknowledged=())
    else:
        pending = _pending(state, user, raw)
    checked = check_fully(raw, keys=state.keys, now=moment(now))
    require_kept_values_fit(state, raw)
    plan = plan_manifest(state, policy_of(raw)).plan
    old, new = policy_of(state.manifest).manifest, checked.manifest
    waiting = (name for name in plan.kept if new.secrets[name].user_defined)
    return PlanData(
        digest=plan_digest(plan),
        plan=plan,
        acknowledged=pending.acknowledged,
        missing_acknowledgments=pending.missing,
        missing_users=pending.missing_users,
        not_uploaded=tuple(name for name in waiting if name not in state.secrets),
        notes=(*notes_of_update(state, old, new), *policy_of(raw).caveats),
        warnings=checked.warnings,
    )


def _pending(state: Running, user: str, raw: bytes) -> Pending:
    """Return the pending update if ``raw`` is its manifest. Raises ``Conflicting`` if it is not."""
    if state.pending is not None and state.pending.manifest != raw:
        require_nothing_pending(state)
    return require_acknowledger(state, user, raw)


def _plan_of_packages(
    state: Running, identity: bytes | None, raw: bytes, update: PackageUpdate, *, now: int
) -> PlanData:
    policy = policy_of(state.manifest)
    policy.authorize(identity, Action.UPDATE_SECURITY_VERSION, update.packages)
    require_nothing_pending(state)
    versions = check_package_update(update, versions_in_force(state))
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

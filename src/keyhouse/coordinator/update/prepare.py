"""The slow and impure work before an update is decided: new keys, certificates issued anew.

Called off the event loop, like ``prepare``.
"""

from datetime import datetime

from msgspec.structs import replace

from keyhouse.authority import (
    CoordinatorKeys,
    StoredSecret,
    generate,
    is_generated_with_manifest,
    renew_intermediate,
)
from keyhouse.base.errors import Invalid
from keyhouse.coordinator.clock import moment
from keyhouse.coordinator.core.commands import AcknowledgeUpdate, InitiateUpdate, UpdatePackages
from keyhouse.coordinator.core.decide_update import (
    proposed,
    require_acknowledger,
    require_nothing_pending,
)
from keyhouse.coordinator.core.plan_basis import PlanBasis
from keyhouse.coordinator.core.policy import policy_of
from keyhouse.coordinator.core.state import Running
from keyhouse.coordinator.core.versions import versions_in_force
from keyhouse.coordinator.update.apply import prepare_application
from keyhouse.coordinator.update.plan import Planned, plan_manifest, plan_packages
from keyhouse.coordinator.update.prepare_plan import require_plan
from keyhouse.manifest import (
    Action,
    Manifest,
    PackageUpdate,
    check_package_update,
    read_package_update,
    warnings_of_versions,
)

__all__ = ["CannotBeApplied", "prepare_acknowledgement", "prepare_update"]


class CannotBeApplied(Invalid):
    """An update with all its acknowledgements that cannot take effect: it is cancelled."""

    code = "cannot-be-applied"


def prepare_update(
    state: Running, identity: bytes | None, raw: bytes, *, now: int, plan: str = ""
) -> UpdatePackages | InitiateUpdate:
    """Check an uploaded update and make what it needs. The permission is judged first.

    ``plan``: the digest of the plan that the caller is bound to, if any.

    Raises:
        Unauthenticated, Forbidden: the caller may not make this update.
        Conflicting: another update is pending. PlanChanged: the plan is another one by now.
        Invalid: every problem of the update.
    """
    policy_of(state.manifest).identify(identity)
    update = read_package_update(raw)
    if update is None:
        return _prepare_full(state, identity, raw, now=now, plan=plan)
    command = _prepare_packages(state, identity, update, now=now)
    if not plan:
        return command
    planned = plan_packages(state, raw, command.versions, moment(now))
    return replace(command, basis=_bound(planned, plan))


def prepare_acknowledgement(
    state: Running, identity: bytes | None, raw: bytes, *, now: int, plan: str = ""
) -> AcknowledgeUpdate:
    """Check an acknowledgement; if it is the last that is needed, make what the update needs.

    ``plan``: the digest of the plan that the caller is bound to, if any.

    Raises:
        Unauthenticated, Forbidden, NotFound, Conflicting: it cannot be acknowledged so.
        PlanChanged: the plan is another one by now.
        CannotBeApplied: it is complete, and its manifest cannot take effect any more.
    """
    user = policy_of(state.manifest).identify(identity)
    pending = require_acknowledger(state, user, raw).acknowledged_by(user)
    basis = _bound(plan_manifest(state, policy_of(raw)), plan) if plan else None
    application = None
    if not pending.missing:
        try:
            application = prepare_application(state, raw, now=now)
        except Invalid as invalid:
            raise CannotBeApplied("the update cannot be applied", invalid.problems) from None
    assert identity is not None  # noqa: S101 it was identified
    return AcknowledgeUpdate(identity=identity, manifest=raw, application=application, basis=basis)


def _bound(planned: Planned, expected: str) -> PlanBasis:
    """Return what the plan rests on, if it is still the one that was reviewed."""
    require_plan(planned, expected)
    return planned.basis


def _prepare_full(
    state: Running, identity: bytes | None, raw: bytes, *, now: int, plan: str
) -> InitiateUpdate:
    user = policy_of(state.manifest).authorize_update(identity)
    require_nothing_pending(state)
    # Made also if others have to agree first: then only to find every problem now.
    application = prepare_application(state, raw, now=now)
    basis = _bound(plan_manifest(state, policy_of(raw)), plan) if plan else None
    waits = proposed(state, user, raw).missing
    assert identity is not None  # noqa: S101 it was authorized
    return InitiateUpdate(
        identity=identity,
        based_on=state.manifest,
        manifest=raw,
        application=None if waits else application,
        notes=application.notes,
        warnings=application.warnings,
        basis=basis,
    )


def _prepare_packages(
    state: Running, identity: bytes | None, update: PackageUpdate, *, now: int
) -> UpdatePackages:
    policy = policy_of(state.manifest)
    policy.authorize(identity, Action.UPDATE_SECURITY_VERSION, update.packages)
    require_nothing_pending(state)
    versions = check_package_update(update, versions_in_force(state))
    keys = renew_intermediate(state.keys, moment(now))
    assert identity is not None  # noqa: S101 it was identified
    return UpdatePackages(
        identity=identity,
        manifest=state.manifest,
        intermediate=state.keys.intermediate_cert,
        versions=versions,
        keys=keys,
        secrets=_issued_anew(policy.manifest, keys, moment(now)),
        warnings=warnings_of_versions(versions),
    )


def _issued_anew(
    manifest: Manifest, keys: CoordinatorKeys, now: datetime
) -> dict[str, StoredSecret]:
    """Return every shared generated certificate, with a new key, under the new intermediate CA."""
    issued: dict[str, StoredSecret] = {}
    for name, definition in sorted(manifest.secrets.items()):
        if is_generated_with_manifest(definition) and definition.type.is_certificate:
            try:
                issued[name] = generate(definition, name=name, keys=keys, now=now)
            except Invalid:
                # Its NotAfter has passed. It stays as it is: a certificate that ended must not
                # keep an operator from shutting out a vulnerable version.
                continue
    return issued

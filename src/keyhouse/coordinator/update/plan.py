"""The plan of an update: the changes that the update would make to a state. Pure.

A plan is computed from a state and a checked manifest. A user who reviews the plan can send its
digest; the update is refused if the plan has changed by then. Planning and applying use the same
rules for retained values (``retained``), so an applied update does what its plan says.
``prepare_plan`` checks the permission of the caller.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import islice
from typing import Final

import msgspec

from keyhouse.authority import is_generated_with_manifest, trial
from keyhouse.base.errors import TooLargeError
from keyhouse.coordinator.core.commands import PlanBasis, basis_of
from keyhouse.coordinator.core.policy import InForce, Policy, policy_of, versions_in_force
from keyhouse.coordinator.core.state import Running
from keyhouse.coordinator.update.changes.access import role_changes, user_changes
from keyhouse.coordinator.update.changes.config import (
    config_changes,
    former_roots,
    recovery_changes,
    renewals_of_ca,
)
from keyhouse.coordinator.update.changes.marbles import (
    changed_limits,
    marble_changes,
    restarts,
    tls_changes,
)
from keyhouse.coordinator.update.changes.packages import (
    infrastructure_changes,
    package_changes,
    packages_in_force,
    raised_versions,
)
from keyhouse.coordinator.update.changes.secrets import (
    certificate_renewals,
    certificates_of_packages,
    kept_secrets,
    secret_changes,
    upload_may_be_lost,
)
from keyhouse.coordinator.update.compare import differing
from keyhouse.coordinator.update.retained import overlap_hours
from keyhouse.manifest import Action, Manifest, fingerprint
from keyhouse.wire.plan import Plan, PlanChange

CHANGES: Final = 20_000
"""Maximum of changes in a plan, and of renewals.

A person cannot review more, and the answer needs a bound.
"""


class Planned(msgspec.Struct, frozen=True):
    """A plan, and the facts of the state that determine the plan."""

    plan: Plan
    basis: PlanBasis


def plan_manifest(state: Running, new: Policy) -> Planned:
    """Return the plan of the full update from ``state`` to the checked manifest ``new``.

    Raises:
        TooLargeError: the plan has more changes than a person could review.
    """
    old = policy_of(state.manifest)
    before, after = old.manifest, new.manifest
    kept = kept_secrets(before, after)
    users = old.permissions.holders(Action.UPDATE_MANIFEST)
    plan = Plan(
        kind="manifest",
        base=fingerprint(state.manifest),
        manifest=fingerprint(after.raw),
        versions=_versions(state),
        users=users,
        needed=before.config.update_threshold or len(users),
        changes=_bounded(manifest_changes(state, old.manifest, new)),
        renewals=_bounded(_renewals(state, old, new, kept)),
        kept=kept,
    )
    uploads, limits = upload_may_be_lost(before, after), changed_limits(before, after)
    return Planned(plan, basis_of(state, uploads, limits))


def plan_packages(state: Running, raw: bytes, versions: dict[str, int], now: datetime) -> Planned:
    """Return the plan of the package update ``raw`` in ``state``.

    ``versions``: the new security version of each package in ``raw``. ``now``, in UTC, decides
    which certificates can still be issued.

    Raises:
        TooLargeError: the plan has more changes than a person could review.
    """
    policy = policy_of(state.manifest)
    renewed, ended = _certificates(state, policy.manifest, now)
    kept = tuple(
        name
        for name, definition in sorted(policy.manifest.secrets.items())
        if name in ended or definition.user_defined or not definition.type.is_certificate
    )
    changes = _bounded(raised_versions(state, versions))
    raised = {each.name for each in changes}
    renewals = (
        *renewals_of_ca(epoch=False),
        *former_roots(policy.manifest, policy.manifest, 0),
        *certificates_of_packages(renewed, ended),
        *restarts(policy, policy, kept, raised),
    )
    plan = Plan(
        kind="packages",
        base=fingerprint(state.manifest),
        manifest=fingerprint(raw),
        versions=_versions(state),
        users=(),
        needed=0,
        changes=changes,
        renewals=_bounded(renewals),
        kept=kept,
    )
    return Planned(plan, basis_of(state))


def manifest_changes(state: InForce, before: Manifest, new: Policy) -> Iterator[PlanChange]:
    """Yield the differences of the manifest ``new`` from ``before``, in force in ``state``."""
    after = new.manifest
    yield from package_changes(state, before, after)
    yield from infrastructure_changes(before, after)
    yield from marble_changes(state, before, new)
    yield from tls_changes(before, after)
    yield from secret_changes(state, before, after)
    yield from user_changes(before, after)
    yield from role_changes(before, after)
    yield from recovery_changes(before, after)
    yield from config_changes(before, after)


def _renewals(
    state: Running, old: Policy, new: Policy, kept: tuple[str, ...]
) -> Iterator[PlanChange]:
    yield from renewals_of_ca(epoch=True)
    yield from former_roots(old.manifest, new.manifest, overlap_hours(state, new.manifest))
    yield from certificate_renewals(old.manifest, new.manifest)
    in_force = packages_in_force(state, old.manifest)
    moved = {name for name, _, _ in differing(in_force, new.manifest.packages)}
    yield from restarts(old, new, kept, moved)


def _versions(state: Running) -> dict[str, int]:
    listed_changes = versions_in_force(state)
    return {name: version for name, version in listed_changes.items() if version is not None}


def _certificates(
    state: Running, manifest: Manifest, now: datetime
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the shared certificates that can be reissued, then those that have expired."""
    shared = [
        (name, definition)
        for name, definition in sorted(manifest.secrets.items())
        if is_generated_with_manifest(definition) and definition.type.is_certificate
    ]
    ended = {name for name, each in shared if trial(each, name=name, keys=state.keys, now=now)}
    names = [name for name, _ in shared]
    return tuple(name for name in names if name not in ended), tuple(sorted(ended))


def _bounded(changes: Iterable[PlanChange]) -> tuple[PlanChange, ...]:
    listed_changes = tuple(islice(changes, CHANGES + 1))
    if len(listed_changes) > CHANGES:
        raise TooLargeError(
            f"the plan has more than {CHANGES} changes",
            hint="update in smaller steps, or without a plan",
        )
    return listed_changes

"""The slow and impure work before an update is decided: new keys, certificates issued anew.

Called off the event loop, like ``prepare``.
"""

from datetime import datetime

from keyhouse.authority import (
    CoordinatorKeys,
    StoredSecret,
    generate,
    is_generated_with_manifest,
    renew_intermediate,
)
from keyhouse.coordinator.clock import moment
from keyhouse.coordinator.commands import UpdatePackages
from keyhouse.coordinator.policy import policy_of
from keyhouse.coordinator.state import Running
from keyhouse.manifest import Action, Manifest, check_package_update, read_package_update
from keyhouse.wire.errors import Invalid, NotYet

__all__ = ["prepare_update", "versions_in_force"]


def prepare_update(
    state: Running, identity: bytes | None, raw: bytes, *, now: int
) -> UpdatePackages:
    """Check an uploaded update and make what it needs. The permission is judged first.

    Raises:
        Unauthenticated, Forbidden: the caller may not update all of these packages.
        Invalid: every problem of the update.
        NotYet: it is a complete new manifest.
    """
    policy = policy_of(state.manifest)
    user = policy.identify(identity)
    update = read_package_update(raw)
    if update is None:
        raise NotYet("full manifest updates are not implemented in this version of Keyhouse")
    policy.require(user, Action.UPDATE_SECURITY_VERSION, update.packages)
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
    )


def versions_in_force(state: Running) -> dict[str, int | None]:
    """Return the SecurityVersion that each package has now; None for those without one."""
    packages = policy_of(state.manifest).manifest.packages
    return {
        name: state.security_versions.get(name, package.security_version)
        for name, package in packages.items()
    }


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

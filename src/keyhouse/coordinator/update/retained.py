"""Values that a full update retains: the rules shared by planning and applying.

Source: ``docs/reference/plan.md``.
"""

from collections.abc import Iterator
from typing import Final

import msgspec
from msgspec.structs import replace

from keyhouse.authority import effective_threshold
from keyhouse.coordinator.core.policy import policy_of, versions_in_force
from keyhouse.coordinator.core.state import Running
from keyhouse.coordinator.update.compare import listed
from keyhouse.manifest import Action, Manifest, Package, Replicas, SealMode
from keyhouse.wire.secret_types import SecretDefinition, SecretType

_SAME_CODE: Final = "exactly the code and settings of the one that hands it over"

KEPT_NOWHERE: Final = (
    "it erases the state on the disk and keeps it in memory: a restart loses everything"
)
KEPT_AGAIN: Final = "it keeps the state on the disk, where nothing of it was kept before"


def equal_definitions(old: SecretDefinition | None, new: SecretDefinition) -> bool:
    """Return whether both definitions give the same secret; certificate templates may differ."""
    return old is not None and (
        (old.type, old.size, old.shared, old.user_defined, old.valid_for)
        == (new.type, new.size, new.shared, new.user_defined, new.valid_for)
    )


def stays(old: SecretDefinition | None, new: SecretDefinition, *, rotates: bool) -> bool:
    """Return whether a full update retains the value of a secret, or its derivation.

    ``old`` and ``new`` are the definitions. ``rotates``: the update replaces the root secret.
    """
    if not equal_definitions(old, new):
        return False
    return new.user_defined or (new.type is SecretType.SYMMETRIC_KEY and not rotates)


def recovery_terms(manifest: Manifest) -> tuple[dict[str, str], int]:
    """Return the recovery keys and the effective threshold."""
    keys = {name: key.pem for name, key in manifest.recovery_keys.items()}
    return keys, effective_threshold(len(keys), manifest.config.recovery_threshold)


def renews_data_key(old: Manifest, new: Manifest) -> bool:
    """Return whether an update makes a new data key and new shares.

    This happens if the recovery keys or their threshold change. It also happens if a coordinator
    that may have the old key must not get the next key.
    """
    if recovery_terms(old) != recovery_terms(new):
        return True
    return dismisses_replicas(old.config.replicas, new.config.replicas)


def dismisses_replicas(old: Replicas | None, new: Replicas | None) -> bool:
    """Return whether ``old`` admits a coordinator that ``new`` may exclude.

    Such a coordinator may have the data key, or have sealed it. So the next records need a new key.
    """
    if old is None:
        return False
    if new is None or code_texts(old) - code_texts(new):
        return True
    if set(old.accepted_tcb_statuses) - set(new.accepted_tcb_statuses):
        return True
    if not new.platforms:
        return False
    return not old.platforms or not set(old.platforms) <= set(new.platforms)


def code_texts(replicas: Replicas | None) -> set[str]:
    """Return a text for each admitted code. Different identities have different texts."""
    if replicas is None:
        return set()
    return {_code_text(package) for package in replicas.code} or {_SAME_CODE}


def _code_text(package: Package) -> str:
    if package.vm is not None:
        return f"{package.vm.FIELD} {msgspec.json.encode(package.vm).decode()}"
    if package.unique_id:
        return f"UniqueID {package.unique_id}"
    return (
        f"SignerID {package.signer_id}, ProductID {package.product_id} and SecurityVersion"
        f" {package.security_version} or higher"
    )


def overlap_hours(state: Running, new: Manifest) -> int:
    """Return the hours for which workloads trust the present marble root after an update.

    0 for an update that takes trust away: a package or a marble type that is removed or changed,
    other recovery keys or replicas, or a new root secret. Workloads of a former package, and
    coordinators with the former state, have certificates or keys of the present root.
    """
    trust, old = new.config.trust, policy_of(state.manifest).manifest
    if trust is None or not old.is_living:
        return 0
    versions = versions_in_force(state)
    changed = any(
        new.packages.get(name) != replace(package, security_version=versions[name])
        for name, package in old.packages.items()
    )
    moved = any(
        name not in new.marbles or new.marbles[name].package != marble.package
        for name, marble in old.marbles.items()
    )
    if changed or moved or new.config.rotate_root_secret or renews_data_key(old, new):
        return 0
    return trust.overlap_hours


def notes_of_update(state: Running, old: Manifest, new: Manifest) -> Iterator[str]:
    """Yield remarks about an update for its users, as text."""
    for name, version in sorted(versions_in_force(state).items()):
        package = new.packages.get(name)
        if package is None or version is None or package.security_version is None:
            continue
        if package.security_version < version:
            lowered = f"{version} to {package.security_version}"
            yield f"it lowers SecurityVersion of {name} from {lowered}"
    if kept := tuple(_ignored_values(old, new)):
        yield (
            f"it does not take the values that the manifest gives for {listed(kept)}: a secret that"
            " stays keeps what it has, upload the new value"
        )
    if old.recovery_keys and not new.recovery_keys:
        yield "it removes all recovery keys: a lost state cannot be recovered"
    if not policy_of(new.raw).permissions.holders(Action.UPDATE_MANIFEST):
        yield "it leaves no user who may update the manifest: it is final"
    modes = (old.config.seal_mode, new.config.seal_mode)
    if modes[0] != modes[1] and SealMode.DISABLED in modes:
        yield KEPT_NOWHERE if new.config.seal_mode is SealMode.DISABLED else KEPT_AGAIN


def _ignored_values(old: Manifest, new: Manifest) -> Iterator[str]:
    """Yield the retained secrets with a new value in ``new``, which the update ignores.

    A value in a manifest is an initial value. Users may have uploaded a different value since, and
    an update must not overwrite an upload silently.
    """
    for name, definition in sorted(new.secrets.items()):
        former = old.secrets.get(name)
        if definition.private is None or former is None:
            continue
        values = (definition.private, definition.cert_der)
        if equal_definitions(former, definition) and values != (former.private, former.cert_der):
            yield name

"""Prepares the application of a full update: kept, renewed and dropped values.

Runs off the event loop. Every full update replaces the intermediate CA, and running workloads get
certificates of the new CA only after a restart. A change of recovery keys or of admitted replicas
also replaces the data key. Source: ``docs/reference/plan.md``.
"""

import os
from datetime import datetime
from typing import Final

from msgspec.structs import replace

from keyhouse import authority
from keyhouse.base.errors import InvalidError, Problem
from keyhouse.base.printable import excerpt
from keyhouse.base.secret import Secret
from keyhouse.coordinator.core.commands import PreparedUpdate
from keyhouse.coordinator.core.context import moment
from keyhouse.coordinator.core.policy import policy_of
from keyhouse.coordinator.core.state import Running
from keyhouse.coordinator.full_check import check_fully, initial_secret
from keyhouse.coordinator.update import retained
from keyhouse.journal import DEK_SIZE
from keyhouse.manifest import Manifest
from keyhouse.wire.secret_types import SecretDefinition, SecretType

ROOT_SECRET: Final = 32  # bytes: as strong as the data key


def prepare_application(state: Running, raw: bytes, *, now: int) -> PreparedUpdate:
    """Check ``raw`` completely, also against the values to keep, and make all new values.

    Raises:
        InvalidError: every problem.
    """
    checked = check_fully(raw, keys=state.keys, now=moment(now))
    old, new = policy_of(state.manifest).manifest, checked.manifest
    require_fitting(state, raw)
    keys = authority.renew_intermediate(state.keys, moment(now))
    if new.config.rotate_root_secret:
        keys = replace(keys, root_secret=Secret(os.urandom(ROOT_SECRET)))
    dek, recovery = _recovery(state, old, new)
    values = _Values(state, old, new, keys, moment(now))
    rotates = new.config.rotate_root_secret
    return PreparedUpdate(
        based_on=state.manifest,
        intermediate=state.keys.intermediate_cert,
        keys=keys,
        manifest=raw,
        signature=authority.sign_manifest(keys, raw),
        kept=values.kept,
        secrets=values.secrets,
        previous=values.previous,
        previous_root_secret=state.keys.root_secret if rotates else state.previous_root_secret,
        previous_sizes=_previous_sizes(state, old, new),
        recovery=recovery,
        notes=tuple(retained.notes_of_update(state, old, new)),
        warnings=checked.warnings,
        overlap=retained.overlap_hours(state, new),
        dek=dek,
    )


class _Values:
    """The secrets after an update: the names of kept secrets, new values and previous values."""

    def __init__(
        self,
        state: Running,
        old: Manifest,
        new: Manifest,
        keys: authority.CoordinatorKeys,
        now: datetime,
    ) -> None:
        kept: list[str] = []
        self.secrets: dict[str, authority.StoredSecret] = {}
        self.previous: dict[str, authority.StoredSecret] = {}
        for name, definition in sorted(new.secrets.items()):
            former_definition = old.secrets.get(name)
            if retained.stays(former_definition, definition, rotates=new.config.rotate_root_secret):
                kept.append(name)
                continue
            value = _new_value(name, definition, keys, now)
            if value is not None:
                self.secrets[name] = value
                equal = retained.equal_definitions(former_definition, definition)
                former = state.secrets.get(name) if equal else None
                self.previous[name] = value if former is None else former
        self.kept = tuple(kept)


def _new_value(
    name: str, definition: SecretDefinition, keys: authority.CoordinatorKeys, now: datetime
) -> authority.StoredSecret | None:
    if definition.user_defined:
        return initial_secret(name, definition)
    if authority.is_generated_with_manifest(definition):
        return authority.generate(definition, name=name, keys=keys, now=now)
    return None


def _previous_sizes(state: Running, old: Manifest, new: Manifest) -> dict[str, int]:
    """Return the size in bits of the previous value of each per-marble key."""
    sizes = {}
    for name, definition in new.secrets.items():
        if definition.type is not SecretType.SYMMETRIC_KEY or definition.shared:
            continue
        former = state.previous_sizes.get(name, definition.size)
        equal = retained.equal_definitions(old.secrets.get(name), definition)
        is_kept = equal and not new.config.rotate_root_secret
        sizes[name] = former if is_kept else definition.size
    return sizes


def _recovery(
    state: Running, old: Manifest, new: Manifest
) -> tuple[Secret | None, authority.RecoveryMaterial]:
    """Return a new data key with its shares, or None with the present shares.

    New recovery keys, or the exclusion of a replica, require a new data key.
    """
    if not retained.renews_data_key(old, new):
        return None, state.recovery
    dek = Secret(os.urandom(DEK_SIZE))
    public_keys = {name: key.public_key for name, key in new.recovery_keys.items()}
    return dek, authority.make_recovery(dek, public_keys, new.config.recovery_threshold)


def require_fitting(state: Running, raw: bytes) -> None:
    """Verify that the manifest ``raw`` fits the transparency log and the uploaded secrets.

    The manifest must keep the name of the log, and its templates must render with the uploaded
    values. Raises ``InvalidError`` with every problem.
    """
    _require_origin(state, raw)
    policy = policy_of(raw)
    old = policy_of(state.manifest).manifest.secrets
    problems: list[Problem] = []
    for name in policy.templates.readers:
        definition = policy.manifest.secrets.get(name)
        if definition is None or not definition.user_defined or name not in state.secrets:
            continue
        if retained.equal_definitions(old.get(name), definition):
            problems += policy.templates.check_upload(name, state.secrets[name])
    if problems:
        raise InvalidError("the manifest does not fit the uploaded secrets", problems)


def _require_origin(state: Running, raw: bytes) -> None:
    """Raise ``InvalidError`` if the manifest ``raw`` gives the log a new name."""
    transparency, log = policy_of(raw).manifest.config.transparency, state.public_log
    if transparency is None or log is None or transparency.origin in {"", log.origin}:
        return
    problem = Problem(
        "Config.Transparency.Origin",
        "is not the name of the transparency log; the name never changes",
        f"omit the field, or write {excerpt(log.origin)}",
    )
    raise InvalidError("the manifest does not fit the log of this deployment", [problem])

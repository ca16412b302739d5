"""The slow and impure work before a decision: keys, certificates, shares, imported values.

The functions run off the event loop. Each reads one state, changes nothing, and returns a command
for this state. The decision refuses the command if the state has changed in its relevant parts.
Then the command is prepared again (``until_current``).
"""

import os
from collections.abc import Callable, Mapping
from datetime import datetime

import msgspec

from keyhouse import authority
from keyhouse.base.errors import BadRequestError, InvalidError, Problem
from keyhouse.base.printable import at
from keyhouse.base.secret import Secret
from keyhouse.coordinator.core.commands import SetManifest, UploadSecrets
from keyhouse.coordinator.core.context import moment
from keyhouse.coordinator.core.events import Uploaded
from keyhouse.coordinator.core.policy import policy_of, remember_policy
from keyhouse.coordinator.core.state import AcceptingManifest, Recovering, Running
from keyhouse.coordinator.engine.log_signing import make_log_key
from keyhouse.coordinator.full_check import check_fully, initial_secret
from keyhouse.coordinator.update.retained import equal_definitions
from keyhouse.journal import DEK_SIZE, STORE_ID_SIZE, index_mac_key
from keyhouse.manifest import Action, Manifest
from keyhouse.wire.secret_types import SecretDefinition, UserSecret


def prepare_manifest(state: AcceptingManifest | Recovering, raw: bytes, *, now: int) -> SetManifest:
    """Check ``raw`` completely, and make all keys, secrets and shares of the deployment.

    Raises:
        InvalidError: every problem of the manifest.
    """
    checked = check_fully(raw, keys=state.keys, now=moment(now), building=_is_only_tried)
    manifest = checked.manifest
    dek, store_id = Secret(os.urandom(DEK_SIZE)), os.urandom(STORE_ID_SIZE)
    secrets = _initial_secrets(manifest, state.keys, moment(now))
    remember_policy(manifest)  # made here, off the event loop
    recovery = authority.make_recovery(
        dek,
        {name: key.public_key for name, key in manifest.recovery_keys.items()},
        manifest.config.recovery_threshold,
    )
    index = authority.index_of(recovery, state.keys, raw, store_id=store_id, epoch=1)
    mac_key = index_mac_key(dek, store_id, 1)
    return SetManifest(
        root_cert=state.keys.root_cert,
        manifest=raw,
        signature=authority.sign_manifest(state.keys, raw),
        secrets=secrets,
        recovery=recovery,
        dek=dek,
        store_id=store_id,
        recovery_index=authority.recovery_index(index, keys=state.keys, mac_key=mac_key),
        log_key=make_log_key(state.keys, manifest),
        warnings=checked.warnings,
    )


def prepare_upload(
    state: Running,
    identity: bytes | None,
    uploads: Mapping[str, UserSecret],
    *,
    within: str = "secrets",
) -> UploadSecrets:
    """Check and import the secrets that a user uploads. The check of the permission is first.

    ``identity``: the caller's certificate (DER). ``uploads``: the secrets by name. ``within``: the
    field of the request that contains them; empty if they are the whole request.

    Raises:
        UnauthenticatedError, ForbiddenError: the caller may not write all of these names.
            BadRequestError: an upload mixes a key with a certificate. InvalidError: every problem
            of the values, and of templates with these values.
    """
    if not uploads:
        hint = "send at least one secret by its name"
        raise InvalidError("the upload", [Problem(within, "is missing or empty", hint)])
    policy = policy_of(state.manifest)
    policy.authorize(identity, Action.WRITE_SECRET, uploads)
    check_pending = _pending_check(state)
    problems: list[Problem] = []
    imported: list[Uploaded] = []
    for name, upload in sorted(uploads.items()):
        definition = policy.manifest.secrets[name]
        try:
            value = authority.import_secret(definition, upload, name=name)
        except InvalidError as invalid:
            place = at(within, name) if within else at(name)
            problems += (_below(place, problem) for problem in invalid.problems)
            continue
        except BadRequestError as mixed:
            place = at(within, name) if within else at(name)
            raise _placed(place, mixed) from None
        problems += policy.templates.check_upload(name, value)
        problems += check_pending(name, value)
        imported.append(Uploaded(name=name, type=definition.type, value=value))
    if problems:
        raise InvalidError("the upload", problems)
    assert identity is not None  # noqa: S101 it was authorized
    return UploadSecrets(
        identity=identity,
        manifest=state.manifest,
        pending=state.pending.manifest if state.pending else None,
        uploads=tuple(imported),
    )


def _pending_check(
    state: Running,
) -> Callable[[str, authority.StoredSecret], tuple[Problem, ...]]:
    """Return the check of a value against the templates of the pending manifest.

    Without this check, an upload could prevent the last acknowledgement.
    """
    if state.pending is None:
        return lambda _name, _value: ()
    policy = policy_of(state.pending.manifest)
    now = policy_of(state.manifest).manifest.secrets

    def check(name: str, value: authority.StoredSecret) -> tuple[Problem, ...]:
        definition = policy.manifest.secrets.get(name)
        if definition is None or not equal_definitions(now.get(name), definition):
            return ()  # the update will drop the value
        return tuple(map(_in_pending, policy.templates.check_upload(name, value)))

    return check


def _in_pending(problem: Problem) -> Problem:
    return msgspec.structs.replace(problem, problem=f"{problem.problem} (in the pending update)")


def _below(place: str, problem: Problem) -> Problem:
    """Return ``problem``, found in the upload at ``place``, with its path in the whole request."""
    return msgspec.structs.replace(problem, at=f"{place}.{problem.at}")


def _placed(place: str, mixed: BadRequestError) -> BadRequestError:
    """Return the refusal ``mixed`` of the upload at ``place``, with paths in the whole request."""
    fields = {f"{place}.{field}": why for field, why in mixed.fields.items()}
    return BadRequestError(mixed.message, fields=fields, hint=mixed.hint)


def _is_only_tried(definition: SecretDefinition) -> bool:
    return not authority.is_generated_with_manifest(definition)


def _initial_secrets(
    manifest: Manifest, keys: authority.CoordinatorKeys, now: datetime
) -> dict[str, authority.StoredSecret]:
    """Return the first values of the shared secrets, and the values in ``manifest``.

    An activation makes the secrets of a single workload.

    Raises:
        InvalidError: every certificate that cannot be made.
    """
    secrets: dict[str, authority.StoredSecret] = {}
    problems: list[Problem] = []
    for name, definition in sorted(manifest.secrets.items()):
        try:
            if definition.user_defined:
                value = initial_secret(name, definition)
            elif authority.is_generated_with_manifest(definition):
                value = authority.generate(definition, name=name, keys=keys, now=now)
            else:
                continue
        except InvalidError as invalid:
            problems += invalid.problems
        else:
            if value is not None:
                secrets[name] = value
    if problems:
        raise InvalidError("the manifest", problems)
    return secrets

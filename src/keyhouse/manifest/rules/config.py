"""Rules for ``Config``: thresholds, gates, replicas, and witnesses of the transparency log."""

import re
from typing import Final

from keyhouse.base.errors import Findings
from keyhouse.base.printable import Place
from keyhouse.manifest.document import ConfigDocument, ManifestDocument
from keyhouse.manifest.model import (
    Action,
    Anchored,
    FeatureGate,
    ResourceType,
    SealMode,
    ServeCondition,
    Transparency,
)
from keyhouse.manifest.rules.packages import check_identity, check_statuses
from keyhouse.manifest.rules.references import SPELLING, unknown
from keyhouse.transparency.errors import LogInvalidError
from keyhouse.transparency.policy import CosignaturePolicy
from keyhouse.wire.json_decoder import nearest
from keyhouse.wire.package import Package

PLATFORM: Final = "^(?:[0-9a-fA-F]{32}|[0-9a-fA-F]{128})$"
"""A PPID of Intel, or a CHIP_ID of AMD."""

_PLATFORM: Final = re.compile(PLATFORM, re.ASCII)
_BESIDE: Final = ("AcceptedTCBStatuses", "AcceptedAdvisories")

# Minimum and maximum of a lease in seconds and in operations.
ALLOWED_SECONDS: Final = (60, 30 * 24 * 3600)
ALLOWED_OPERATIONS: Final = (1, 1_000_000_000)

ORIGIN: Final = re.compile(r"[!-*,-~]{1,255}", re.ASCII)
"""Names of logs: the characters allowed in C2SP checkpoints, key names and lines of leaves."""

_HERE: Final[Place] = ("Config", "Transparency")


def check_config(manifest: ManifestDocument, findings: Findings) -> None:
    """Check each field of ``Config``: seal mode, gates, thresholds, replicas, transparency log."""
    config = manifest.config
    if config.seal_mode not in {"", *SealMode}:
        hint = nearest(config.seal_mode, tuple(SealMode))
        findings.refuse(("Config", "SealMode"), unknown(config.seal_mode), hint)
    _check_gates(config, findings)
    _check_update_threshold(manifest, findings)
    threshold, keys = config.recovery_threshold, len(manifest.recovery_keys)
    here = ("Config", "RecoveryThreshold")
    if threshold > keys:
        problem = f"is {threshold}, but there are only {keys} recovery keys"
        findings.refuse(here, problem, "add recovery keys, or lower the threshold")
    if threshold == 1:
        findings.refuse(here, "is 1, must be at least 2", "use 0 to require all recovery keys")
    _check_replicas(config, findings)
    _check_transparency(config, findings)


def _check_gates(config: ConfigDocument, findings: Findings) -> None:
    known = {gate.lower(): gate for gate in FeatureGate}
    for index, name in enumerate(config.feature_gates):
        here = ("Config", "FeatureGates", index)
        gate = known.get(name.lower()) if name.isascii() else None
        if gate is None:
            findings.refuse(here, unknown(name), nearest(name, tuple(FeatureGate)))
        elif gate is FeatureGate.AZURE_HSM_SEALING:
            findings.refuse(
                here, "requests sealing by a cloud HSM, which is not supported", "remove it"
            )
        elif name != gate:
            findings.warn(here, f"is read as {gate}", SPELLING)


def _check_update_threshold(manifest: ManifestDocument, findings: Findings) -> None:
    roles_with_update = {
        name
        for name, role in manifest.roles.items()
        if role.resource_type == ResourceType.MANIFEST
        and any(action.lower() == Action.UPDATE_MANIFEST.lower() for action in role.actions)
    }
    users = sum(not roles_with_update.isdisjoint(user.roles) for user in manifest.users.values())
    threshold = manifest.config.update_threshold
    if threshold > users:
        problem = f"is {threshold}, but only {users} users have the permission UpdateManifest"
        hint = "give more users a role with UpdateManifest, or lower the threshold"
        findings.refuse(("Config", "UpdateThreshold"), problem, hint)


def _check_replicas(config: ConfigDocument, findings: Findings) -> None:
    """Check ``Config.Replicas``: identities, TCB statuses and platforms.

    Warn of seal modes that weaken the section, or leave it without an effect.
    """
    replicas = config.replicas
    if replicas is None:
        return
    here: Place = ("Config", "Replicas")
    for index, package in enumerate(replicas.code):
        _check_code((*here, "Code", index), package, findings)
    check_statuses(here, replicas.accepted_tcb_statuses, findings)
    for index, platform in enumerate(replicas.platforms):
        if not _PLATFORM.fullmatch(platform):
            problem = "is not a platform's ID: a PPID of 32 hex digits, or AMD's CHIP_ID of 128"
            hint = "write the PPID or CHIP_ID of the platform's quotes"
            findings.refuse((*here, "Platforms", index), problem, hint)
    _warn_of_seal_mode(here, config.seal_mode, findings)


def _check_code(place: Place, package: Package, findings: Findings) -> None:
    lists = (package.accepted_tcb_statuses, package.accepted_advisories)
    for field, given in zip(_BESIDE, lists, strict=True):
        if given:
            problem = "is not a field of an entry of Code: such an entry only identifies code"
            hint = "remove it; Replicas.AcceptedTCBStatuses applies to all entries"
            findings.refuse((*place, field), problem, hint)
    check_identity(place, package, findings)
    if package.signer_id and not package.unique_id:
        problem = "names a signer: code that the signer signs later may receive the data key, too"
        findings.warn(place, problem, "write UniqueID, so that users agree to each version")


def _warn_of_seal_mode(place: Place, mode: str, findings: Findings) -> None:
    if mode == SealMode.DISABLED:
        findings.warn(
            place,
            "has no effect with SealMode Disabled: the coordinator stores nothing",
            "remove it, or choose another SealMode",
        )
    elif mode != SealMode.UNIQUE_KEY:
        findings.warn(
            place,
            "does not bind the coordinator's own signer: with SealMode ProductKey, other code of"
            " the same signer and product can unseal the state on the same machine",
            "use SealMode UniqueKey",
        )


def _check_transparency(config: ConfigDocument, findings: Findings) -> None:
    """Check ``Config.Transparency``: name of the log, policy of witnesses, and lease."""
    given = config.transparency
    if given is None:
        return
    _check_origin(given.origin, findings)
    policy = _policy(given.witnesses, findings)
    _check_serve(given, policy, findings)
    _check_range("LeaseSeconds", given.lease_seconds, ALLOWED_SECONDS, findings)
    _check_range("LeaseOperations", given.lease_operations, ALLOWED_OPERATIONS, findings)
    for index, name in enumerate(given.anchor_before):
        if name not in {*Anchored}:
            place = (*_HERE, "AnchorBefore", index)
            findings.refuse(place, unknown(name), nearest(name, tuple(Anchored)))
    if given.anchor_before and policy is None:
        problem = "has no effect without witnesses"
        findings.warn((*_HERE, "AnchorBefore"), problem, "name witnesses in Witnesses")


def _check_origin(origin: str, findings: Findings) -> None:
    here = (*_HERE, "Origin")
    if origin and not ORIGIN.fullmatch(origin):
        problem = "has a space, a plus, a character that is not ASCII, or more than 255 characters"
        findings.refuse(here, problem, "write a name such as log.example.com/payments")
    elif "://" in origin:
        problem = "has a scheme, which names of logs do not have"
        findings.warn(here, problem, "remove the scheme")


def _policy(text: str, findings: Findings) -> CosignaturePolicy | None:
    """Return the policy of witnesses in ``text``; None: it requires no witness, or is refused."""
    here = (*_HERE, "Witnesses")
    if not text:
        return None
    try:
        policy = CosignaturePolicy.read(text)
        for each in policy.witnesses:
            each.require_url()
    except LogInvalidError as fault:
        hint = "check the policy with: keyhouse log policy check FILE"
        findings.refuse(here, f"is not a policy of witnesses: {fault.message}", hint)
        return None
    if policy.logs:
        findings.warn(here, "has log lines, which have no effect here", "remove the log lines")
    if policy.quorum is None:
        problem = "needs no witness, so nobody outside confirms the log"
        findings.warn(here, problem, "define a quorum in the policy")
        return None
    return policy


def _check_serve(given: Transparency, policy: CosignaturePolicy | None, findings: Findings) -> None:
    here = (*_HERE, "Serve")
    if given.serve not in {"", *ServeCondition}:
        findings.refuse(here, unknown(given.serve), nearest(given.serve, tuple(ServeCondition)))
    fork = "is a policy under which a fork needs no lying witness"
    if given.serve == ServeCondition.WITNESSED and policy is None:
        problem = "is Witnessed, but no witness is needed"
        findings.refuse(here, problem, "name witnesses and a quorum in Witnesses")
    elif policy is not None and policy.tolerated_liars < 0:
        note = findings.refuse if given.serve == ServeCondition.WITNESSED else findings.warn
        note((*_HERE, "Witnesses"), fork, "let the quorum be more than half of the witnesses")


def _check_range(name: str, value: int, allowed: tuple[int, int], findings: Findings) -> None:
    low, high = allowed
    if value and not low <= value <= high:
        problem = f"is {value}, must be {low} to {high}"
        findings.refuse((*_HERE, name), problem, "use 0 for the default")

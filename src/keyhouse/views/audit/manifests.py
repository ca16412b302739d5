"""Manifests of a log in words: changes between manifests, and rights in the last manifest.

The sentences about changes are the sentences of plans, so an auditor reads the text that users
reviewed before they agreed. A log has no values of secrets and no counts of activations. So
sentences about these are omitted.
"""

from collections.abc import Mapping
from itertools import islice
from typing import Final

import msgspec

from keyhouse.base.errors import InvalidError, KeyhouseError
from keyhouse.base.printable import quoted
from keyhouse.coordinator import policy_of
from keyhouse.coordinator.update.changes.access import rights_of
from keyhouse.coordinator.update.changes.packages import contents, packages_in_force
from keyhouse.coordinator.update.plan import manifest_changes
from keyhouse.evidence.verify import Verified
from keyhouse.manifest import Action, Manifest, Permissions, ServeCondition, decode
from keyhouse.transparency import leaf as leaves
from keyhouse.transparency.leaf import name_in_leaf
from keyhouse.views.plan import signed

MOST_CHANGES: Final = 500
"""Sentences about one update on a page. A person does not review more of them in sequence."""

_RIGHTS: Final = {
    Action.UPDATE_MANIFEST: "agree to a change of these rules",
    Action.UPDATE_SECURITY_VERSION: "raise the version of",
    Action.READ_SECRET: "read",
    Action.WRITE_SECRET: "upload",
}
_NOT_PUBLISHED: Final = "the log does not publish both manifests, so the changes are not known"
_NOT_READ: Final = "this version cannot read one of the two manifests, so it cannot compare them"


class _Recorded(msgspec.Struct, frozen=True):
    """The part of a coordinator's state that an update changes, as far as the log records it."""

    manifest: bytes
    security_versions: Mapping[str, int]
    secrets: frozenset[str] = frozenset()
    activations: Mapping[str, int] = {}


def changes_in_words(before: bytes, after: bytes, versions: Mapping[str, int]) -> list[str]:
    """Return the changes from the manifest ``before`` to ``after``, each a sentence with a sign.

    ``versions`` are the security versions after package updates, by the packages' names in leaves.
    """
    try:
        old, new = decode(before), policy_of(after)
        state = _Recorded(before, _by_name(old, versions))
        changes = [*islice(manifest_changes(state, old, new), MOST_CHANGES + 1)]
    except KeyhouseError:  # an older or newer version accepted this manifest
        return [_NOT_READ]
    lines = [f"{each.sign} {each.text}" for each in map(signed, changes[:MOST_CHANGES])]
    if len(changes) > MOST_CHANGES:
        lines.append(f"more than {MOST_CHANGES} changes: compare the manifests themselves")
    return lines or ["no change of meaning: the two manifests are spelled differently"]


def update_changes(verified: Verified) -> dict[int, list[str]]:
    """Return sentences about each manifest, by the number of its leaf in the log.

    For the first manifest, the sentences state its rules. For an update, the sentences state its
    changes. The leaf of an update is the leaf that put the update in force, or the proposal if the
    update did not take effect.
    """
    changes: dict[int, list[str]] = {}
    proposal = -1
    for index, judged in enumerate(verified.entries):
        match judged.leaf:
            case leaves.ManifestSetLeaf() as leaf:
                changes[index] = _rules(verified.evidence.objects.get(leaf.manifest))
            case leaves.UpdateProposedLeaf() as leaf:
                proposal = index
                changes[index] = _between(verified, index, leaf.base, leaf.manifest)
            case leaves.ManifestUpdatedLeaf() as leaf:
                changes.pop(proposal, None)
                proposal = -1
                changes[index] = _between(verified, index, leaf.base, leaf.manifest)
    return changes


def _between(verified: Verified, index: int, base: str, manifest: str) -> list[str]:
    objects = verified.evidence.objects
    before, after = objects.get(base), objects.get(manifest)
    if before is None or after is None:
        return [_NOT_PUBLISHED]
    return changes_in_words(before, after, verified.entries[index - 1].after.versions)


def _rules(raw: bytes | None) -> list[str]:
    rules = {} if raw is None else rules_in_words(raw, {})
    return [f"{subject}: {text}" for subject, texts in rules.items() for text in texts]


def rules_in_words(raw: bytes, versions: Mapping[str, int]) -> dict[str, list[str]]:
    """Return sentences about the rights and rules in the manifest ``raw``, by subject.

    ``versions`` are the security versions after package updates, by the packages' names in leaves.
    """
    try:
        manifest = decode(raw)
        packages = packages_in_force(_Recorded(raw, _by_name(manifest, versions)), manifest)
    except InvalidError:
        return {"Manifest": ["this version cannot read the manifest"]}
    return {
        "Updates": _updates(manifest),
        "Users": [_user(manifest, name) for name in sorted(manifest.users)] or ["none"],
        "Code": [
            f"package {quoted(name)}: {contents(package)}"
            for name, package in sorted(packages.items())
        ],
        "Recovery": [_recovery(manifest)],
        "Witnesses": [_witnesses(manifest)],
    }


def _by_name(manifest: Manifest, versions: Mapping[str, int]) -> dict[str, int]:
    """Return ``versions`` by the packages' names in ``manifest``.

    The given keys are names in leaves. A leaf has a hash instead of a long name.
    """
    names = {name_in_leaf(name): name for name in manifest.packages}
    return {names[name]: version for name, version in versions.items() if name in names}


def _updates(manifest: Manifest) -> list[str]:
    users = Permissions(manifest).holders(Action.UPDATE_MANIFEST)
    if not users:
        return ["nobody may change the manifest"]
    needed = manifest.config.update_threshold or len(users)
    transparency = manifest.config.transparency
    signs = transparency is not None and transparency.signed_approvals
    return [
        f"{needed} of {len(users)} users have to agree to a change: {', '.join(users)}",
        "their signatures are required" if signs else "their signatures are not required",
    ]


def _user(manifest: Manifest, name: str) -> str:
    rights = rights_of(manifest, manifest.users[name])
    parts = [
        f"may {_RIGHTS[action]} {', '.join(sorted(names))}".rstrip() + f" ({action})"
        for (_, action), names in sorted(rights.items())
    ]
    return f"{name}: {'; '.join(parts) or 'no rights'}"


def _recovery(manifest: Manifest) -> str:
    holders = sorted(manifest.recovery_keys)
    if not holders:
        return "nobody: a lost state cannot be recovered"
    needed = manifest.config.recovery_threshold or len(holders)
    return f"{needed} of {len(holders)} holders of recovery keys: {', '.join(holders)}"


def _witnesses(manifest: Manifest) -> str:
    transparency = manifest.config.transparency
    if transparency is None or not transparency.witnesses:
        return "the manifest names none"
    if transparency.serve == ServeCondition.WITNESSED:
        return "the coordinator serves only while a quorum of its witnesses cosigns"
    return "the coordinator serves without them as well"

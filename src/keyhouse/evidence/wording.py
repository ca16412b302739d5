"""The content of a leaf, in a few words for people."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from keyhouse.evidence.history import History
from keyhouse.transparency import leaf as leaves
from keyhouse.transparency.leaf import Leaf

SHORT: Final = 16
"""Hex digits of a hash that distinguish it from similar hashes for people."""

CLAIMED: Final = ", claimed by the coordinator"
"""The end of a text about an event without a user's signature."""

_MOST_NAMES: Final = 12  # names in one text; the rest is counted


def text_of(leaf: Leaf, before: History | None) -> str:  # noqa: C901, PLR0911, PLR0912 a case each
    """Return the content of ``leaf`` in words.

    ``before`` is the history before the leaf, or None for the first leaf.
    """
    match leaf:
        case leaves.LogBegunLeaf():
            return _begun(leaf)
        case leaves.ManifestSetLeaf():
            return f"first manifest {leaf.manifest[:SHORT]} in force"
        case leaves.StartedLeaf():
            return _started(leaf, before)
        case leaves.RecoveredLeaf():
            return f"recovered with the recovery keys of {joined_names(leaf.holders)}{CLAIMED}"
        case leaves.UpdateProposedLeaf():
            others = (
                f"{leaf.needed} users have to agree"
                if leaf.needed > 1
                else "nobody else has to agree"
            )
            return f"{leaf.user} proposed manifest {leaf.manifest[:SHORT]}: {others}"
        case leaves.UpdateApprovedLeaf():
            return f"{leaf.user} agreed to {leaf.manifest[:SHORT]}: {_still_needed(leaf.missing)}"
        case leaves.UpdateCancelledLeaf():
            if not leaf.user:
                return f"the update to {leaf.manifest[:SHORT]} could not be applied{CLAIMED}"
            return f"{leaf.user} cancelled the update to {leaf.manifest[:SHORT]}"
        case leaves.ManifestUpdatedLeaf():
            return _updated(leaf, before)
        case leaves.PackagesUpdatedLeaf():
            raised = joined_names(f"{name} to {version}" for name, version in leaf.versions)
            return f"{leaf.user} raised {raised}"
        case leaves.SecretsUploadedLeaf():
            users = joined_names(dict.fromkeys(each.user for each in leaf.uploads))
            names = joined_names(
                dict.fromkeys(name for each in leaf.uploads for name in each.names)
            )
            return f"{users} uploaded: {names}{CLAIMED}"
        case leaves.TrustLeaf():
            return _trust(leaf)
        case leaves.AnchorLeaf():
            return "no change: a sign of life for the witnesses"


def _trust(leaf: leaves.TrustLeaf) -> str:
    match leaf.what, leaf.subjects:
        case leaves.TrustChange.REVOKED, (("workload", marble_type, uuid),):
            return f"{leaf.user} revoked a workload of {marble_type}, UUID {_cut(uuid)}{CLAIMED}"
        case leaves.TrustChange.REVOKED, (("type", marble_type),):
            return f"{leaf.user} revoked all workloads of {marble_type} so far{CLAIMED}"
        case leaves.TrustChange.REVOKED, (("platform", platform),):
            return f"{leaf.user} revoked the platform {_cut(platform)}{CLAIMED}"
        case leaves.TrustChange.ROOTS, ((leaves.RootStanding.IN_FORCE, in_force), *former):
            older = joined_names(f"{root[:SHORT]} until {_end(end)}" for _, root, end in former)
            also = f", and for some time {older}" if former else ""
            return f"workloads trust the marble root {in_force[:SHORT]}{also}{CLAIMED}"
        case _:
            subjects = joined_names(" ".join(each) for each in leaf.subjects)
            by = f" by {leaf.user}" if leaf.user else ""
            return f"change of trust {leaf.what}{by}: {subjects}{CLAIMED}"


def _cut(hidden: str) -> str:
    return hidden[: len("sha256:") + SHORT]


def _end(microseconds: str) -> str:
    end = datetime.fromtimestamp(int(microseconds) // 1_000_000, UTC)
    return f"{end:%Y-%m-%d %H:%M:%S} UTC"


def is_other_code(leaf: Leaf, before: History | None) -> bool:
    """Return whether ``leaf`` is a start of different code than the previous start."""
    last = None if before is None else before.started
    if not isinstance(leaf, leaves.StartedLeaf) or last is None:
        return False
    return _code(leaf) != _code(last)


def joined_names(names: Iterable[str]) -> str:
    """Return ``names`` with commas: at most 12 names, then the number of further names."""
    every = list(names)
    more = len(every) - _MOST_NAMES
    return ", ".join(every[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def _still_needed(missing: int) -> str:
    if not missing:
        return "enough users have agreed"
    return f"{missing} more {'user has' if missing == 1 else 'users have'} to agree"


def _code(leaf: leaves.StartedLeaf) -> tuple[str, str, int, int]:
    return leaf.unique, leaf.signer, leaf.product, leaf.svn


def _begun(leaf: leaves.LogBegunLeaf) -> str:
    text = f"the log begins on the platform {leaf.platform}"
    if leaf.previous is not None:
        last = leaf.previous
        text += (
            f", in place of the log {last.origin} with {last.size} entries and the root"
            f" {last.root[:SHORT]} ({last.reason})"
        )
    if isinstance(leaf.manifest, str):
        text += f", with manifest {leaf.manifest[:SHORT]} in force"
    return text


def _started(leaf: leaves.StartedLeaf, before: History | None) -> str:
    code = leaf.unique[:SHORT] or "a confidential VM"
    text = f"started {leaf.version}: code {code}, security version {leaf.svn}"
    return f"{text}, CHANGED: other code than before" if is_other_code(leaf, before) else text


def _updated(leaf: leaves.ManifestUpdatedLeaf, before: History | None) -> str:
    pending = None if before is None else before.pending
    voters = () if pending is None else pending.voters
    signed = 0 if pending is None else len(pending.signed)
    return (
        f"manifest {leaf.manifest[:SHORT]} in force, agreed to by {joined_names(voters)}"
        f" ({signed} of {len(voters)} signed)"
    )

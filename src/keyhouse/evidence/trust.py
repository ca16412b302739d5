"""Judge the leaves about revocations and marble roots (kind ``trust``).

Users do not sign revocations. So a verifier checks only the right of the user, and reports a claim.
A former root must have been trusted before. Otherwise a coordinator could let workloads trust a
root that no leaf of the log names.
"""

import re
from typing import Final

from keyhouse.evidence.errors import HistoryRefusedError
from keyhouse.evidence.gaps import Gap
from keyhouse.evidence.members import ManifestUsers
from keyhouse.manifest import Action
from keyhouse.transparency import leaf as leaves

Roots = dict[str, int]
"""The end of each trusted marble root by the hash of its certificate, in microseconds since 1970.

The root in force is the first one, with the end 0. Empty: the roots are unknown.
"""

MOST_FORMER: Final = 4
"""Maximum of former roots. A coordinator refuses an update that would leave more."""

_HIDDEN: Final = re.compile(r"sha256:[0-9a-f]{64}", re.ASCII)
_HASH: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)
_END: Final = re.compile(r"[1-9][0-9]{0,15}", re.ASCII)


def judge_revocation(members: ManifestUsers | None, leaf: leaves.TrustLeaf) -> tuple[Gap, ...]:
    """Return the gaps of the revocation in ``leaf``.

    ``members`` belong to the manifest in force; None: the file does not have this manifest. Raises
    ``HistoryRefusedError`` for an invalid subject, and for a user without the right.
    """
    match leaf.subjects:
        case (("workload", marble_type, uuid),) if _HIDDEN.fullmatch(uuid):
            types: tuple[str, ...] = (marble_type,)
        case (("type", marble_type),):
            types = (marble_type,)
        case (("platform", platform),) if _HIDDEN.fullmatch(platform):
            types = ()
        case _:
            raise HistoryRefusedError(
                "a revocation must name exactly one workload, type or platform"
            )
    if members is None:
        return (Gap.RIGHTS_UNKNOWN,)
    members.require_user(leaf.user, leaf.certificate)
    # A platform may run workloads of every type, and each manifest has types.
    members.require_allowed(leaf.user, Action.REVOKE_WORKLOAD, types or members.marble_types)
    return ()


def roots_of(leaf: leaves.TrustLeaf, before: Roots) -> Roots:
    """Return the trusted marble roots that ``leaf`` states.

    ``before`` are the trusted roots before this leaf; empty: they are unknown. Raises
    ``HistoryRefusedError`` if the leaf does not state roots in the required form. Also raises this
    error for a former root that was not trusted before, or was trusted for a shorter time.
    """
    first, former = leaf.subjects[:1], leaf.subjects[1:]
    match first:
        case ((leaves.RootStanding.IN_FORCE, in_force),) if _HASH.fullmatch(in_force):
            roots = {in_force: 0}
        case _:
            raise HistoryRefusedError("the entry names no marble root in force")
    if leaf.user or leaf.certificate or len(former) > MOST_FORMER:
        raise HistoryRefusedError(
            f"an entry about marble roots must name no user, and at most {MOST_FORMER} former roots"
        )
    for subject in former:
        match subject:
            case (leaves.RootStanding.FORMER, root, end) if _HASH.fullmatch(
                root
            ) and _END.fullmatch(end):
                pass
            case _:
                raise HistoryRefusedError("the entry has a former marble root without an end")
        if root in roots:
            raise HistoryRefusedError(f"the entry names the marble root {root} twice")
        if before and (root not in before or 0 < before[root] < int(end)):
            raise HistoryRefusedError(
                f"workloads trust the former marble root {root} longer than the entry before states"
            )
        roots[root] = int(end)
    return roots

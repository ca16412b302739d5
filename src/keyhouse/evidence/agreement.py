"""Whether a user signed what a leaf says that they decided: these bytes, in this history."""

import hmac
from collections.abc import Callable
from typing import Final

from keyhouse.evidence.errors import HistoryRefusedError
from keyhouse.transparency import leaf as leaves
from keyhouse.transparency.approval import Approval, Decision, SignedApproval

Decided = (
    leaves.UpdateProposed | leaves.UpdateApproved | leaves.UpdateCancelled | leaves.PackagesUpdated
)
"""Leaves about what a user decided."""

_DECISIONS: Final = {
    leaves.UpdateProposed: Decision.PROPOSE,
    leaves.UpdateApproved: Decision.APPROVE,
    leaves.UpdateCancelled: Decision.CANCEL,
    leaves.PackagesUpdated: Decision.PACKAGES,
}


def signed_by(certificate: bytes, raw: bytes, leaf: Decided) -> Approval:
    """Return the approval in ``raw``, which the key of ``certificate`` (DER) signed for ``leaf``.

    Its log, its base and its head are not compared. Raises ``LogInvalidError`` and
    ``HistoryRefusedError``.
    """
    signed = SignedApproval.read(raw)
    signed.verify(certificate)
    found = signed.approval
    wanted = {"decision": _DECISIONS[type(leaf)], "user": leaf.user}
    if not isinstance(leaf, leaves.PackagesUpdated):
        wanted["manifest"] = leaf.manifest
    if not isinstance(leaf, leaves.UpdateCancelled):
        wanted["plan"] = leaf.plan
    if any(getattr(found, field) != value for field, value in wanted.items()):
        raise HistoryRefusedError("the user signed another decision")
    return found


def require_head(
    approval: Approval, roots: Callable[[int], bytes | None], decided: int, size: int
) -> bool:
    """Tell whether the head of ``approval`` is one of this log; False if that is not known.

    ``decided``: how many leaves the head has at least; ``size``: at the most. Raises
    ``HistoryRefusedError`` if it is another one.
    """
    if not decided <= approval.head.size <= size:
        raise HistoryRefusedError("the user signed at another place of the log")
    root = roots(approval.head.size)
    if root is None:
        return False
    if not hmac.compare_digest(root.hex(), approval.head.root):
        raise HistoryRefusedError("the user had seen another history: the log was forked")
    return True

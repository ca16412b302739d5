"""Checks of the approval that a user signed for an update. Pure, like ``decide``.

An approval names a checkpoint of the transparency log: its head. ``require_fits`` compares the
approval with the request while the command is prepared. ``require_newest`` runs at the decision. It
verifies that the log has no decision after this head. So the user saw the manifest, the users and
the permissions that are now in force.
"""

import hashlib

import msgspec

from keyhouse.base.errors import BadRequestError, ConflictError, ForbiddenError
from keyhouse.coordinator.core.policy import policy_of
from keyhouse.coordinator.core.state import Running
from keyhouse.manifest import Config, fingerprint
from keyhouse.transparency.approval import Approval, DecisionKind, SignedApproval
from keyhouse.transparency.errors import LogInvalidError
from keyhouse.transparency.leaf import name_in_leaf


class Approved(msgspec.Struct, frozen=True):
    """An approval, signed by the key of the caller's certificate."""

    envelope: bytes
    approval: Approval


class ApprovalRefusedError(BadRequestError):
    """The envelope or its signature is invalid, or the approval is for another request."""

    code = "approval-refused"
    next_step = "sign a new approval for this request"

    def __init__(self, reason: str, *, hint: str = "") -> None:
        super().__init__("the approval is not accepted", fields={"approval": reason}, hint=hint)


class ApprovalOutdatedError(ConflictError):
    """The log has a decision after the head of the approval, or another manifest is in force."""

    code = "approval-outdated"

    def __init__(self, reason: str) -> None:
        super().__init__(
            reason,
            hint="read the manifest in force and the pending manifest again; sign a new approval",
        )


class ApprovalMissingError(ForbiddenError):
    """The manifest in force requires a signed approval, and the request has none."""

    code = "approval-missing"


def read_approval(envelope: bytes, identity: bytes) -> Approved:
    """Return the approval in ``envelope``, signed by the key of ``identity`` (DER).

    Raises ``ApprovalRefusedError``.
    """
    try:
        signed = SignedApproval.read(envelope)
        signed.verify(identity)
    except LogInvalidError as invalid:
        raise ApprovalRefusedError(invalid.message, hint=invalid.hint) from None
    return Approved(envelope, signed.approval)


def require_fits(
    state: Running,
    user: str,
    approved: Approved | None,
    decision: DecisionKind,
    sent: bytes,
    plan: str,
) -> None:
    """Verify that the approval is for this ``decision`` of ``user`` about the bytes ``sent``.

    Without an approval (``approved`` is None), the request passes this check. ``plan``: the digest
    of the plan of this request; empty: the request has no plan. Raises ``ApprovalRefusedError`` if
    a value of the approval differs from the request, and ``ApprovalOutdatedError`` if the approval
    is based on a manifest that is not in force.
    """
    if approved is None:
        return
    log, approval = state.public_log, approved.approval
    expected = {
        "origin": "" if log is None else log.origin,
        "root": hashlib.sha256(state.keys.root_cert).hexdigest(),
        "decision": decision,
        "user": name_in_leaf(user),
        "manifest": fingerprint(sent),
        "plan": plan,
    }
    different = [name for name, value in expected.items() if getattr(approval, name) != value]
    if different:
        raise ApprovalRefusedError(
            f"states other values than the request in: {', '.join(different)}"
        )
    if approval.base != fingerprint(state.manifest):
        raise ApprovalOutdatedError("the approval is based on a manifest that is not in force")


def require_newest(state: Running, approved: Approved | None) -> None:
    """Require that the log has no decision that the signer of ``approved`` has not seen.

    An approval names a checkpoint of the log: its signer has seen the log up to there. ``approved``
    is None for a request without an approval.

    Raises:
        ApprovalOutdatedError: the log has a later decision, or the state has no log.
        ApprovalMissingError: there is no approval, and the manifest in force requires one.
    """
    if approved is not None:
        log = state.public_log
        if log is None or approved.approval.head.size < log.decided:
            raise ApprovalOutdatedError("the log has a decision that is newer than the approval")
    elif _requires_approvals(policy_of(state.manifest).manifest.config):
        raise ApprovalMissingError(
            "the manifest in force requires signed approvals; this request has none",
            hint="send the request with a version of keyhouse or of the SDK that signs approvals",
        )


def _requires_approvals(config: Config) -> bool:
    transparency = config.transparency
    return transparency is not None and transparency.signed_approvals

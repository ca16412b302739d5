"""Whether the approval that a user has signed counts: pure, like ``decide``.

``require_fits`` compares it with the request when a command is prepared. When it is decided,
``require_newest`` says that nothing was decided since its head: then the manifest in force, and
with it users and permissions, are those that the user has seen.
"""

import hashlib

import msgspec

from keyhouse.base.errors import BadRequestError, ConflictError, ForbiddenError
from keyhouse.coordinator.core.policy import policy_of
from keyhouse.coordinator.core.state import Running
from keyhouse.manifest import Config, fingerprint
from keyhouse.transparency.approval import Approval, Decision, SignedApproval
from keyhouse.transparency.errors import LogInvalidError
from keyhouse.transparency.leaf import name_in_leaf


class Approved(msgspec.Struct, frozen=True):
    """An approval, signed by the key of the caller's certificate."""

    envelope: bytes
    approval: Approval


class ApprovalRefusedError(BadRequestError):
    """The approval is not one, or is for something else."""

    code = "approval-refused"

    def __init__(self, reason: str, *, hint: str = "") -> None:
        super().__init__("the approval is not accepted", fields={"approval": reason}, hint=hint)


class ApprovalOutdatedError(ConflictError):
    """Something was decided since the head of the approval, or it is not known here yet."""

    code = "approval-outdated"

    def __init__(self, reason: str) -> None:
        super().__init__(reason, hint="look again at what is in force or pending, and sign that")


class ApprovalMissingError(ForbiddenError):
    """The manifest in force demands an approval."""

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
    state: Running, user: str, approved: Approved | None, decision: Decision, sent: bytes, plan: str
) -> None:
    """Return if the approval, if there is one, is for this ``decision`` of ``user`` about ``sent``.

    ``plan``: the digest that the request is bound to, or nothing. Raises ``ApprovalRefusedError``,
    and ``ApprovalOutdatedError`` if another manifest is in force than it says.
    """
    if approved is None:
        return
    log, found = state.public_log, approved.approval
    wanted = {
        "origin": "" if log is None else log.origin,
        "root": hashlib.sha256(state.keys.root_cert).hexdigest(),
        "decision": decision,
        "user": name_in_leaf(user),
        "manifest": fingerprint(sent),
        "plan": plan,
    }
    others = [name for name, value in wanted.items() if getattr(found, name) != value]
    if others:
        raise ApprovalRefusedError(f"its values are not those of the request: {', '.join(others)}")
    if found.base != fingerprint(state.manifest):
        raise ApprovalOutdatedError("another manifest is in force than the approval says")


def require_newest(state: Running, approved: Approved | None) -> None:
    """Return if nothing was decided since the head of ``approved``.

    Raises:
        ApprovalOutdatedError: something was. ApprovalMissingError: there is no approval, and the
            manifest in force demands one.
    """
    if approved is not None:
        log = state.public_log
        if log is None or approved.approval.head.size < log.decided:
            raise ApprovalOutdatedError("something was decided since the head of the approval")
    elif _demanded(policy_of(state.manifest).manifest.config):
        raise ApprovalMissingError(
            "the manifest in force demands signed approvals, and this request has none",
            hint="use keyhouse manifest, or the SDK, of a version that signs; see SignedApprovals",
        )


def _demanded(config: Config) -> bool:
    transparency = config.transparency
    return transparency is not None and transparency.signed_approvals

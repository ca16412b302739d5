"""Send a user's decision about an update, store its result, and find the users who have signed.

Pages mark a user as signer only after the console has verified the signature with the user's
certificate. The statement of the coordinator is not enough.
"""

import contextlib
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from keyhouse.base.errors import BadRequestError, KeyhouseError
from keyhouse.client import AsyncCoordinator, PlanData, TrustError
from keyhouse.client.exchange import Keep
from keyhouse.console.deployments import ConsoleDeployment, ManifestInForce
from keyhouse.console.public_log import LogPart
from keyhouse.console.results import Kind, Result
from keyhouse.manifest import fingerprint
from keyhouse.transparency.approval import DecisionKind, SignedApproval
from keyhouse.transparency.leaf import UpdateApprovedLeaf, UpdateProposedLeaf, name_in_leaf
from keyhouse.views import plan as review
from keyhouse.wire.client_api import UpdateAnswer

_AGREED: Final = frozenset({DecisionKind.PROPOSE, DecisionKind.APPROVE})


async def signers(
    coordinator: AsyncCoordinator, log: LogPart, in_force: ManifestInForce, pending: bytes
) -> set[str]:
    """Return the users with a verified signed approval of the ``pending`` manifest in ``log``.

    ``in_force`` has the certificates of the users. ``coordinator`` serves the signed approvals. If
    a request for an approval fails, the result is empty: pages then show who has agreed, without
    signatures. Raises ``TrustError``.
    """
    users = in_force.manifest.users
    names = {name_in_leaf(name): name for name in users}
    found: set[str] = set()
    try:
        for leaf in log.leaves:
            if not isinstance(leaf, UpdateProposedLeaf | UpdateApprovedLeaf):
                continue
            if leaf.approval and leaf.user in names:
                name = names[leaf.user]
                raw = await coordinator.log_part(f"object/{leaf.approval}")
                if _has_signed(raw, users[name].certificate, leaf.user, pending):
                    found.add(name)
            if isinstance(leaf, UpdateProposedLeaf):
                break
    except TrustError:
        raise
    except KeyhouseError:
        return set()
    return found


def _has_signed(raw: bytes, certificate: bytes, user: str, pending: bytes) -> bool:
    try:
        signed = SignedApproval.read(raw)
        signed.verify(certificate)
    except KeyhouseError:
        return False
    approval = signed.approval
    same = (approval.user, approval.manifest) == (user, fingerprint(pending))
    return same and approval.decision in _AGREED


async def send_decision(
    deployment: ConsoleDeployment,
    kind: Kind,
    send: Callable[[Keep], Awaitable[UpdateAnswer]],
    before: ManifestInForce,
    agreed: tuple[str, ...],
    raw: bytes,
    digest: str,
) -> str:
    """Send this user's decision about an update with ``send``, and store the result.

    ``raw`` is the update, and ``digest`` the digest of its reviewed plan. ``before`` is the
    manifest in force before the decision. ``agreed`` has all users who agree, including this user.
    ``kind`` is the kind of the result if the update still needs acknowledgements. New recovery
    secrets are stored even if a step after the coordinator's answer fails. Return the name of the
    result.
    """
    kept: dict[str, bytes] = {}
    at, user = datetime.now(UTC), before.user
    try:
        answer = await send(kept.update)
    except BaseException:
        if kept:
            found = Result(kind="unfinished", at=at, user=user, recovery_secrets=kept)
            deployment.results.add(found)
        raise
    name = deployment.results.add(
        Result(
            kind="in-force" if answer.applied else kind,
            at=at,
            user=user,
            fingerprint=fingerprint(raw),
            agreed=agreed,
            missing=answer.missing_acknowledgments,
            missing_users=tuple(each for each in answer.missing_users if each not in agreed),
            plan=digest,
            recovery_secrets=answer.recovery_secrets,
        )
    )
    # The change is done. An error of these reads must not hide its result.
    with contextlib.suppress(KeyhouseError):
        await _complete(deployment, name, before, raw)
    return name


async def _complete(
    deployment: ConsoleDeployment, name: str, before: ManifestInForce, raw: bytes
) -> None:
    """Add data from the coordinator to the result ``name`` of a decision about the update ``raw``.

    These are the fingerprint of the manifest in force, and the users with verified signatures.
    ``before`` is the manifest in force before the decision.
    """
    found, link = deployment.results.find(name), await deployment.link()
    if found.kind == "in-force":
        # An update of security versions is not the whole manifest that is now in force.
        in_force = (await deployment.in_force()).fingerprint
        found = msgspec.structs.replace(found, fingerprint=in_force)
        deployment.results.replace(name, found)
    log = await deployment.log.newest(link.coordinator)
    signed = frozenset(await signers(link.coordinator, log, before, raw))
    deployment.results.replace(name, msgspec.structs.replace(found, signed=signed))


def digest_of(fields: dict[str, str]) -> str:
    """Return the digest of the reviewed plan from ``fields``, the fields of a form.

    Raises ``BadRequestError`` without a digest.
    """
    digest = fields.get("plan", "")
    if not digest:
        raise BadRequestError("no plan was reviewed", hint="load the page again")
    return digest


def reviewed(found: PlanData) -> dict[str, Any]:
    """Return the values of the plan ``found`` for a template."""
    return {
        "found": found,
        "changes": [review.signed(each) for each in review.harmless(found.plan)],
        "renewals": [review.signed(each) for each in found.plan.renewals],
        "dangers": review.danger_texts(found.plan),
        "summary": str(review.summary(found.plan.changes)),
        "agreement": review.agreement(found),
    }

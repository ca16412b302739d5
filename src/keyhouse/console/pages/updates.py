"""The page Updates: the pending update and its effects; propose, approve and cancel.

Each action needs a confirmation. The page marks a user as signer only after a verification of the
signature with the user's key, whatever the coordinator states.
"""

import asyncio
import base64
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from keyhouse.base.errors import BadRequestError, ConflictError, KeyhouseError
from keyhouse.client import AsyncCoordinator, PlanData, TrustError
from keyhouse.console.deployments import Deployment, InForce, Link
from keyhouse.console.manifest_text import json_of, yaml_of
from keyhouse.console.page import View, change, fields_of, page, redirect
from keyhouse.console.public_log import LogPart
from keyhouse.manifest import Action, fingerprint
from keyhouse.transparency.approval import Decision, SignedApproval
from keyhouse.transparency.leaf import UpdateApproved, UpdateProposed, name_in_leaf
from keyhouse.views import plan as review
from keyhouse.wire.base64_text import decode_base64

_AGREED: Final = frozenset({Decision.PROPOSE, Decision.APPROVE})


async def signers(
    coordinator: AsyncCoordinator, log: LogPart, in_force: InForce, pending: bytes
) -> set[str]:
    """Return the users whose signed approval of the ``pending`` manifest is in ``log``.

    Returns no user if an approval is not readable now; the list of approvers does not depend on
    signatures. Raises ``TrustError``.
    """
    users = in_force.manifest.users
    names = {name_in_leaf(name): name for name in users}
    found: set[str] = set()
    try:
        for leaf in log.leaves:
            if not isinstance(leaf, UpdateProposed | UpdateApproved):
                continue
            if leaf.approval and leaf.user in names:
                name = names[leaf.user]
                raw = await coordinator.log_part(f"object/{leaf.approval}")
                if _has_signed(raw, users[name].certificate, leaf.user, pending):
                    found.add(name)
            if isinstance(leaf, UpdateProposed):
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


@page("updates")
async def show(request: Request, deployment: Deployment) -> View:
    """Show the pending update with its plan, or the form for a proposal."""
    link, in_force = await deployment.link(), await deployment.in_force()
    pending = await link.coordinator.pending()
    allows = in_force.permissions.allows
    values: dict[str, Any] = {
        "user": in_force.user,
        "may": bool(in_force.user) and allows(in_force.user, Action.UPDATE_MANIFEST),
        "updaters": in_force.permissions.holders(Action.UPDATE_MANIFEST),
        "fingerprint": in_force.fingerprint,
        "pending": pending,
        "found": None,
        "text": "",
    }
    if pending is None:
        if request.query_params.get("from") == "force":
            values["text"] = await asyncio.to_thread(yaml_of, in_force.manifest.raw)
        return View("updates", values)
    values["log"] = await deployment.log.newest(link.coordinator)
    values["pending_fingerprint"] = fingerprint(pending.manifest)
    values["signers"] = await signers(link.coordinator, values["log"], in_force, pending.manifest)
    if values["may"]:
        values |= _reviewed(await link.coordinator.plan(pending.manifest))
    return View("updates", values)


@page("updates")
async def plan(request: Request, deployment: Deployment) -> View:
    """Show the effects of a submitted manifest. Nothing is changed."""
    text = fields_of(request).get("manifest", "")
    if not text.strip():
        raise BadRequestError("no manifest was given", hint="paste one, or choose a file")
    raw = json_of(text)
    link, in_force = await deployment.link(), await deployment.in_force()
    found = await link.coordinator.plan(raw)
    values = {
        "user": in_force.user,
        "fingerprint": in_force.fingerprint,
        "proposed": fingerprint(raw),
        "manifest": base64.b64encode(raw).decode(),
        **_reviewed(found),
    }
    return View("propose", values)


@change("updates")
async def propose(request: Request, deployment: Deployment) -> Response:
    """Propose the manifest of the reviewed plan. Refused if its effect has changed since."""
    fields = fields_of(request)
    raw = decode_base64(fields.get("manifest", ""))
    link = await deployment.link()
    await link.coordinator.update(raw, plan=_digest(fields))
    return redirect(deployment, "updates")


@change("updates")
async def approve(request: Request, deployment: Deployment) -> Response:
    """Agree to the pending update of the reviewed plan, byte for byte."""
    fields, link = fields_of(request), await deployment.link()
    raw = await _still_pending(link, fields)
    await link.coordinator.acknowledge(raw, plan=_digest(fields))
    return redirect(deployment, "updates")


@change("updates")
async def cancel(request: Request, deployment: Deployment) -> Response:
    """Cancel the pending update, if it is the update on the page."""
    link = await deployment.link()
    await _still_pending(link, fields_of(request))
    await link.coordinator.cancel()
    return redirect(deployment, "updates")


async def _still_pending(link: Link, fields: dict[str, str]) -> bytes:
    """Return the pending update. Raises ``ConflictError`` if the page showed another update."""
    pending = await link.coordinator.pending()
    if pending is None or fingerprint(pending.manifest) != fields.get("pending", ""):
        raise ConflictError(
            "the update that was shown is not pending any more", hint="load the page again"
        )
    return pending.manifest


def _digest(fields: dict[str, str]) -> str:
    """Return the digest of the reviewed plan. Without a digest, nothing is sent."""
    digest = fields.get("plan", "")
    if not digest:
        raise BadRequestError("no plan was reviewed", hint="load the page again")
    return digest


def _reviewed(found: PlanData) -> dict[str, Any]:
    """Return the values of a plan for templates."""
    return {
        "found": found,
        "changes": [review.signed(each) for each in review.harmless(found.plan)],
        "renewals": [review.signed(each) for each in found.plan.renewals],
        "dangers": review.danger_texts(found.plan),
        "summary": str(review.summary(found.plan.changes)),
        "agreement": review.agreement(found),
    }

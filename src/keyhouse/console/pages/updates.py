"""The page Updates: the pending update and its effects; propose, approve and cancel.

Each action needs a confirmation. The page marks a user as signer only after a verification of the
signature with the user's key, whatever the coordinator states.
"""

import asyncio
import base64
import contextlib
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from keyhouse.base.errors import BadRequestError, ConflictError, KeyhouseError, NotFoundError
from keyhouse.client import AsyncCoordinator, PlanData, TrustError
from keyhouse.client.exchange import Keep
from keyhouse.console.deployments import Deployment, InForce, Link
from keyhouse.console.manifest_text import json_of, yaml_of
from keyhouse.console.page import View, change, fields_of, page, redirect
from keyhouse.console.pages.recovery import secrets_file
from keyhouse.console.public_log import LogPart
from keyhouse.console.results import Kind, Result
from keyhouse.manifest import Action, fingerprint
from keyhouse.transparency.approval import Decision, SignedApproval
from keyhouse.transparency.leaf import UpdateApproved, UpdateProposed, name_in_leaf
from keyhouse.views import plan as review
from keyhouse.wire.base64_text import decode_base64
from keyhouse.wire.client_api import Pending, UpdateAnswer

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
    raw, digest = decode_base64(fields.get("manifest", "")), _digest(fields)
    link, before = await deployment.link(), await deployment.in_force()

    async def send(keep: Keep) -> UpdateAnswer:
        return await link.coordinator.update(raw, keep=keep, plan=digest)

    sent = await _sent(deployment, "proposed", send, before, (before.user,), raw, digest)
    return _to_result(deployment, sent)


@change("updates")
async def approve(request: Request, deployment: Deployment) -> Response:
    """Agree to the pending update of the reviewed plan, byte for byte."""
    fields, digest = fields_of(request), _digest(fields_of(request))
    link, before = await deployment.link(), await deployment.in_force()
    pending = await _still_pending(link, fields)
    raw, missing = pending.manifest, set(pending.missing_users)
    updaters = before.permissions.holders(Action.UPDATE_MANIFEST)
    agreed = tuple(each for each in updaters if each not in missing or each == before.user)

    async def send(keep: Keep) -> UpdateAnswer:
        return await link.coordinator.acknowledge(raw, keep=keep, plan=digest)

    sent = await _sent(deployment, "approved", send, before, agreed, raw, digest)
    return _to_result(deployment, sent)


@change("updates")
async def cancel(request: Request, deployment: Deployment) -> Response:
    """Cancel the pending update, if it is the update on the page."""
    link, in_force = await deployment.link(), await deployment.in_force()
    pending = await _still_pending(link, fields_of(request))
    await link.coordinator.cancel()
    result = Result(
        kind="cancelled",
        at=datetime.now(UTC),
        user=in_force.user,
        fingerprint=fingerprint(pending.manifest),
    )
    return _to_result(deployment, deployment.results.add(result))


@page("updates")
async def result(request: Request, deployment: Deployment) -> View:
    """Show the result of a proposal, an approval or a cancellation, and the next step."""
    name = request.path_params["result"]
    values = {
        "result": deployment.results.find(name),
        "result_name": name,
        "unsaved": deployment.results.is_unsaved(name),
    }
    return View("result", values)


@page("updates")
async def recovery_secrets(request: Request, deployment: Deployment) -> Response:
    """Return the new recovery secrets of a result as a file, and record the download."""
    name = request.path_params["result"]
    found = deployment.results.find(name).recovery_secrets
    if not found:
        raise NotFoundError("this result has no recovery secrets", hint="see the page Recovery")
    deployment.results.mark_saved(name)
    return secrets_file(deployment, found)


def _to_result(deployment: Deployment, name: str) -> Response:
    return redirect(deployment, f"updates/result/{name}")


async def _sent(
    deployment: Deployment,
    kind: Kind,
    send: Callable[[Keep], Awaitable[UpdateAnswer]],
    before: InForce,
    agreed: tuple[str, ...],
    raw: bytes,
    digest: str,
) -> str:
    """Send a change of this user; return the name of its stored result.

    ``kind`` is the result of a change that is not in force yet. ``before`` is the manifest in force
    before the change. New recovery secrets are stored even if a
    step after the coordinator's answer fails.
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


async def _complete(deployment: Deployment, name: str, before: InForce, raw: bytes) -> None:
    """Add to a stored result the fingerprint in force and the verified signatures."""
    found, link = deployment.results.find(name), await deployment.link()
    if found.kind == "in-force":
        # An update of security versions is not the whole manifest that is now in force.
        in_force = (await deployment.in_force()).fingerprint
        found = msgspec.structs.replace(found, fingerprint=in_force)
        deployment.results.replace(name, found)
    log = await deployment.log.newest(link.coordinator)
    signed = frozenset(await signers(link.coordinator, log, before, raw))
    deployment.results.replace(name, msgspec.structs.replace(found, signed=signed))


async def _still_pending(link: Link, fields: dict[str, str]) -> Pending:
    """Return the pending update. Raises ``ConflictError`` if the page showed another update."""
    pending = await link.coordinator.pending()
    if pending is None or fingerprint(pending.manifest) != fields.get("pending", ""):
        raise ConflictError(
            "the update that was shown is not pending any more", hint="load the page again"
        )
    return pending


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

"""The page Updates: the pending update and its effects, or the editor; approve and cancel.

Each action needs a confirmation.
"""

from datetime import UTC, datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from keyhouse.base.errors import ConflictError, NotFoundError
from keyhouse.client.exchange import Keep
from keyhouse.console.decisions import digest_of, reviewed, send_decision, signers
from keyhouse.console.deployments import ConsoleDeployment, Link
from keyhouse.console.page import TemplateView, change, fields_of, page
from keyhouse.console.pages.editor import editor, to_result
from keyhouse.console.pages.recovery import secrets_file
from keyhouse.console.results import Result
from keyhouse.manifest import Action, fingerprint
from keyhouse.wire.client_api import Pending, UpdateAnswer


@page("updates")
async def show(request: Request, deployment: ConsoleDeployment) -> TemplateView:
    """Show the pending update with its plan, or the editor for a proposal."""
    link, in_force = await deployment.link(), await deployment.in_force()
    pending = await link.coordinator.pending()
    may = bool(in_force.user) and in_force.permissions.allows(in_force.user, Action.UPDATE_MANIFEST)
    if pending is None and may and not deployment.read_only:
        from_force = request.query_params.get("from") == "force"
        return await editor(deployment, in_force, from_force=from_force)
    values: dict[str, Any] = {
        "user": in_force.user,
        "may": may,
        "updaters": in_force.permissions.holders(Action.UPDATE_MANIFEST),
        "fingerprint": in_force.fingerprint,
        "pending": pending,
        "found": None,
    }
    if pending is None:
        return TemplateView("updates", values)
    values["log"] = await deployment.log.newest(link.coordinator)
    values["pending_fingerprint"] = fingerprint(pending.manifest)
    values["signers"] = await signers(link.coordinator, values["log"], in_force, pending.manifest)
    if values["may"]:
        values |= reviewed(await link.coordinator.plan(pending.manifest))
    return TemplateView("updates", values)


@change("updates")
async def approve(request: Request, deployment: ConsoleDeployment) -> Response:
    """Agree to the pending update of the form, with the digest of the reviewed plan."""
    fields, digest = fields_of(request), digest_of(fields_of(request))
    link, before = await deployment.link(), await deployment.in_force()
    pending = await _still_pending(link, fields)
    raw, missing = pending.manifest, set(pending.missing_users)
    updaters = before.permissions.holders(Action.UPDATE_MANIFEST)
    agreed = tuple(each for each in updaters if each not in missing or each == before.user)

    async def send(keep: Keep) -> UpdateAnswer:
        return await link.coordinator.acknowledge(raw, keep=keep, plan=digest)

    sent = await send_decision(deployment, "approved", send, before, agreed, raw, digest)
    return to_result(deployment, sent)


@change("updates")
async def cancel(request: Request, deployment: ConsoleDeployment) -> Response:
    """Cancel the pending update, if it is the update of the form."""
    link, in_force = await deployment.link(), await deployment.in_force()
    pending = await _still_pending(link, fields_of(request))
    await link.coordinator.cancel()
    result = Result(
        kind="cancelled",
        at=datetime.now(UTC),
        user=in_force.user,
        fingerprint=fingerprint(pending.manifest),
    )
    return to_result(deployment, deployment.results.add(result))


@page("updates")
async def result(request: Request, deployment: ConsoleDeployment) -> TemplateView:
    """Show the result of a proposal, an approval or a cancellation, and the next step."""
    name = request.path_params["result"]
    values = {
        "result": deployment.results.find(name),
        "result_name": name,
        "unsaved": deployment.results.is_unsaved(name),
    }
    return TemplateView("result", values)


@page("updates")
async def recovery_secrets(request: Request, deployment: ConsoleDeployment) -> Response:
    """Return the new recovery secrets of a stored result as a file, and record the download."""
    name = request.path_params["result"]
    found = deployment.results.find(name).recovery_secrets
    if not found:
        raise NotFoundError("this result has no recovery secrets", hint="open the page Recovery")
    deployment.results.mark_saved(name)
    return secrets_file(deployment, found)


async def _still_pending(link: Link, fields: dict[str, str]) -> Pending:
    """Return the pending update, which must be the update of the form's ``fields``.

    Raises ``ConflictError`` if the update of the form is not pending any more.
    """
    pending = await link.coordinator.pending()
    if pending is None or fingerprint(pending.manifest) != fields.get("pending", ""):
        raise ConflictError(
            "the update on this page is not pending any more", hint="load the page again"
        )
    return pending

"""The editor for a proposal: the draft of a manifest, beside its problems or its plan.

The console stores the draft in its memory until the manifest is in force. So the draft survives a
reload, and a visit of a different page.
"""

import asyncio
import contextlib
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from keyhouse.base.errors import BadRequestError, KeyhouseError
from keyhouse.client import PlanData, TrustError, UnreachableError
from keyhouse.client.exchange import Keep
from keyhouse.console.decisions import digest_of, reviewed, send_decision
from keyhouse.console.deployments import ConsoleDeployment, InRecoveryError, ManifestInForce
from keyhouse.console.manifest_text import json_of, located, yaml_of
from keyhouse.console.page import TemplateView, change, fields_of, page, redirect, status_of
from keyhouse.manifest import fingerprint
from keyhouse.wire.client_api import UpdateAnswer

# The page of a deployment shows these, instead of one of its own pages.
_ELSEWHERE = (TrustError, UnreachableError, InRecoveryError)


async def editor(
    deployment: ConsoleDeployment,
    in_force: ManifestInForce,
    *,
    error: KeyhouseError | None = None,
    plan: PlanData | None = None,
    from_force: bool = False,
    is_refused: bool = False,
) -> TemplateView:
    """Return the editor with the user's draft, and with an ``error`` or the ``plan`` of the draft.

    A draft that is equal to the manifest ``in_force`` is cleared. With ``from_force``, an empty
    draft begins as the manifest in force. ``is_refused``: ``error`` is the refusal of a proposal.
    """
    draft = deployment.draft
    if await asyncio.to_thread(_is_in_force, draft.text, in_force):
        draft.put("")
    if from_force and not draft.text:
        draft.put(await asyncio.to_thread(yaml_of, in_force.manifest.raw))
    problems = getattr(error, "problems", ())
    values: dict[str, Any] = {
        "user": in_force.user,
        "fingerprint": in_force.fingerprint,
        "text": draft.text,
        "before": draft.before,
        "error": error,
        "problems": await asyncio.to_thread(located, draft.text, problems),
        "found": None,
        "is_refused": is_refused,
    }
    if plan is not None:
        values |= {"proposed": plan.plan.manifest, **reviewed(plan)}
    return TemplateView("editor", values, 200 if error is None else status_of(error))


def _is_in_force(text: str, in_force: ManifestInForce) -> bool:
    try:
        return bool(text) and fingerprint(json_of(text)) == in_force.fingerprint
    except KeyhouseError:
        return False


@page("updates")
async def show(request: Request, deployment: ConsoleDeployment) -> Response:
    """Redirect a GET of the address of a plan or proposal to the editor.

    Only a POST of the form makes a plan or proposal. A browser sends a GET if the user opens the
    address again.
    """
    del request
    return redirect(deployment, "updates")


@page("updates")
async def keep(request: Request, deployment: ConsoleDeployment) -> Response:
    """Store the text of the editor as the draft.

    The form field ``with`` then replaces the draft: ``in-force`` by the manifest in force,
    ``before`` by the text before the last replacement, and any other word by an empty text. The
    draft keeps the replaced text for an undo.
    """
    fields, draft = fields_of(request), deployment.draft
    draft.put(fields.get("manifest", ""))
    match fields.get("with", ""):
        case "":
            return Response(status_code=204)
        case "in-force":
            in_force = await deployment.in_force()
            draft.replace(await asyncio.to_thread(yaml_of, in_force.manifest.raw))
        case "before":
            draft.replace(draft.before)
        case _:
            draft.replace("")
    return redirect(deployment, "updates")


@page("updates")
async def plan(request: Request, deployment: ConsoleDeployment) -> TemplateView:
    """Show the plan of the submitted manifest beside its text.

    The coordinator computes the plan, and changes nothing.
    """
    deployment.draft.put(fields_of(request).get("manifest", ""))
    link, in_force = await deployment.link(), await deployment.in_force()
    try:
        found = await link.coordinator.plan(await _given(deployment))
    except _ELSEWHERE:
        raise
    except KeyhouseError as error:
        return await editor(deployment, in_force, error=error)
    return await editor(deployment, in_force, plan=found)


@change("updates")
async def propose(request: Request, deployment: ConsoleDeployment) -> TemplateView | Response:
    """Propose the submitted manifest.

    The coordinator refuses the proposal if the effects differ from the reviewed plan.
    """
    fields = fields_of(request)
    deployment.draft.put(fields.get("manifest", ""))
    link, before = await deployment.link(), await deployment.in_force()
    try:
        raw, digest = await _given(deployment), digest_of(fields)

        async def send(keep: Keep) -> UpdateAnswer:
            return await link.coordinator.update(raw, keep=keep, plan=digest)

        sent = await send_decision(
            deployment, "proposed", send, before, (before.user,), raw, digest
        )
    except _ELSEWHERE:
        raise
    except KeyhouseError as error:
        now = None
        with contextlib.suppress(KeyhouseError):
            now = await link.coordinator.plan(await _given(deployment))
        return await editor(deployment, before, error=error, plan=now, is_refused=True)
    if deployment.results.find(sent).kind == "in-force":
        deployment.draft.put("")
    return to_result(deployment, sent)


async def _given(deployment: ConsoleDeployment) -> bytes:
    """Return the bytes to upload for the draft. Raises ``BadRequestError`` for an empty draft."""
    text = deployment.draft.text
    if not text.strip():
        raise BadRequestError(
            "the manifest is empty", hint="write a manifest, or drop a file on the page"
        )
    return await asyncio.to_thread(json_of, text)


def to_result(deployment: ConsoleDeployment, name: str) -> Response:
    """Return a redirect to the page of the stored result ``name``."""
    return redirect(deployment, f"updates/result/{name}")

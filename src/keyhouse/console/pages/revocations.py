"""The pages about workloads that renew: their certificates, their revocation, and marble roots.

A revocation has two steps. A form states the effect of each choice. The submission of the form
revokes, and the next page shows the result.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final
from urllib.parse import urlencode

import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from keyhouse.base.errors import BadRequestError, NotFoundError
from keyhouse.client import AsyncCoordinator, LivingWorkload, MarbleRoot
from keyhouse.console.deployments import ConsoleDeployment, ManifestInForce
from keyhouse.console.page import TemplateView, change, fields_of, page, paged
from keyhouse.console.results import Result
from keyhouse.manifest import Action

_MOST: Final = 10_000
"""Workloads, after which a page requests no more. `keyhouse workload status` lists all."""

_STATES: Final = {
    "current": "current",
    "renew": "has to renew",
    "revoked": "revoked",
}


class LivingRow(msgspec.Struct, frozen=True):
    """A workload that renews its certificate. ``state`` is a text for people.

    ``is_marked``: the page marks a state that is not the usual state.
    """

    workload: LivingWorkload
    state: str
    is_marked: bool
    # The query of the page that revokes the workload, or "" without the right.
    revoke: str


class Living(msgspec.Struct, frozen=True):
    """The workloads that renew, in the order of their types, and the trusted marble roots."""

    workloads: tuple[LivingWorkload, ...]
    roots: tuple[MarbleRoot, ...]
    # Whether more workloads exist.
    more: bool


@page("workloads")
async def show(request: Request, deployment: ConsoleDeployment) -> TemplateView:
    """Show the certificates of workloads that renew, and the marble roots."""
    word = request.query_params.get("q", "")
    link = await deployment.link()
    found = await _living(link.coordinator)
    in_force = await deployment.in_force(link.coordinator.log_head)
    rows = [_row(each, in_force) for each in found.workloads]
    shown = [each for each in rows if word.casefold() in _searched(each)]
    done = request.query_params.get("done", "")
    values = {
        "living": paged(request, shown),
        "word": word,
        "roots": found.roots,
        "more": found.more,
        "result": deployment.results.find(done) if done else None,
    }
    return TemplateView("workloads/living", {**values, **head_of("living", deployment, in_force)})


@page("workloads")
async def revoked(request: Request, deployment: ConsoleDeployment) -> TemplateView:
    """Show the revoked workloads and machines."""
    link = await deployment.link()
    found = await link.coordinator.revocations()
    in_force = await deployment.in_force(link.coordinator.log_head)
    values = {"revoked": paged(request, found.workloads), "platforms": found.platforms}
    return TemplateView("workloads/revoked", {**values, **head_of("revoked", deployment, in_force)})


@change("workloads")
async def ask(request: Request, deployment: ConsoleDeployment) -> TemplateView:
    """Show the form of a revocation, with the effect of each choice."""
    link = await deployment.link()
    in_force = await deployment.in_force(link.coordinator.log_head)
    query = request.query_params
    marble_type, uuid, platform = (query.get(each, "") for each in ("type", "uuid", "platform"))
    if not may_revoke(in_force, marble_type):
        raise NotFoundError(
            f"you may not revoke workloads of {marble_type!r}",
            hint="ask for a role on Marbles with the action RevokeWorkload",
        )
    values = {
        "marble_type": marble_type,
        "uuid": uuid,
        "platform": platform if may_revoke(in_force) else "",
    }
    return TemplateView("workloads/revoke", values)


@change("workloads")
async def revoke(request: Request, deployment: ConsoleDeployment) -> Response:
    """Revoke a workload, a type or a machine; show the result on the page of certificates."""
    fields = fields_of(request)
    given = _chosen(fields)
    link = await deployment.link()
    in_force = await deployment.in_force(link.coordinator.log_head)
    found = await link.coordinator.revoke(**given, reason=fields.get("reason", ""))
    result = Result(
        kind="revoked",
        at=datetime.now(UTC),
        user=in_force.user,
        revoked=_named(given),
        ends=found.ends,
        size=found.workloads,
        witnessed=found.witnessed,
        warning=found.message,
    )
    done = deployment.results.add(result)
    return RedirectResponse(f"/d/{deployment.name}/workloads/living?done={done}", 303)


def _chosen(fields: Mapping[str, str]) -> dict[str, str]:
    """Return the arguments of the call ``revoke`` from the form's ``fields``.

    Raises ``BadRequestError`` without a choice.
    """
    needed = {
        "workload": ("marble_type", "uuid"),
        "type": ("marble_type",),
        "platform": ("platform",),
    }.get(fields.get("scope", ""))
    if needed is None:
        raise BadRequestError(
            "the form names nothing to revoke", hint="choose a workload, a type or a machine"
        )
    return {name: fields.get(name, "") for name in needed}


def _named(given: Mapping[str, str]) -> str:
    if "uuid" in given:
        return f"the workload {given['uuid']} of {given['marble_type']}"
    if "platform" in given:
        return f"the machine {given['platform']}"
    return f"all workloads of {given['marble_type']} so far"


async def _living(coordinator: AsyncCoordinator) -> Living:
    part = await coordinator.workloads()
    found = [*part.workloads]
    while part.next and len(found) < _MOST:
        part = await coordinator.workloads(part.next)
        found += part.workloads
    found.sort(key=lambda each: (each.marble_type, each.uuid))
    return Living(tuple(found), part.roots, bool(part.next))


def _row(each: LivingWorkload, in_force: ManifestInForce) -> LivingRow:
    state = _STATES.get(each.state, each.state)
    if each.state == "current" and not each.renewed:
        state = "not renewed yet"
    ended = datetime.fromisoformat(each.ends) < datetime.now(UTC)
    if ended:
        state = f"{state}, ended"
    query = ""
    if each.state != "revoked" and may_revoke(in_force, each.marble_type):
        query = urlencode({"type": each.marble_type, "uuid": each.uuid, "platform": each.platform})
    return LivingRow(each, state, ended or each.state != "current", query)


def _searched(row: LivingRow) -> str:
    each = row.workload
    return f"{each.marble_type} {each.uuid} {each.platform} {row.state}".casefold()


def may_revoke(in_force: ManifestInForce, marble_type: str = "") -> bool:
    """Return whether the user may revoke workloads of ``marble_type``.

    "" means all types: a user who may revoke all types may also revoke machines.
    """
    types = (marble_type,) if marble_type else tuple(in_force.manifest.marbles)
    return in_force.permissions.allows(in_force.user, Action.REVOKE_WORKLOAD, types)


class Tab(msgspec.Struct, frozen=True):
    """A tab: a link with the text ``label`` to a page about workloads at the path ``place``."""

    name: str
    label: str
    place: str


def head_of(
    open_tab: str, deployment: ConsoleDeployment, in_force: ManifestInForce
) -> dict[str, object]:
    """Return the values for the tabs above each page about workloads.

    ``open_tab`` is the name of the selected tab. The rights of the user decide about the tabs.
    """
    at = f"/d/{deployment.name}/workloads"
    tabs = []
    if not watches_only(in_force):
        tabs = [Tab("joined", "Joined", at), Tab("refused", "Refused", f"{at}?show=refused")]
    if in_force.manifest.is_living and (tabs or watches_only(in_force)):
        tabs += [
            Tab("living", "Certificates", f"{at}/living"),
            Tab("revoked", "Revoked", f"{at}/revoked"),
        ]
    return {"open_tab": open_tab, "tabs": tabs, "refusals": None}


def watches_only(in_force: ManifestInForce) -> bool:
    """Return whether the user may revoke workloads, but may not read the audit trail."""
    rights, user = in_force.permissions, in_force.user
    may_update = rights.allows(user, Action.UPDATE_MANIFEST)
    return rights.allows(user, Action.REVOKE_WORKLOAD) and not may_update

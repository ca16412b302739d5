"""The page History: every change of the deployment, and the evidence file for outsiders.

The page joins two logs. Changes come from the update log. Starts, recoveries and anchors are only
in the transparency log.
"""

import asyncio
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from keyhouse.attestation import Collateral
from keyhouse.client import Coordinator, LogEntry
from keyhouse.client.from_context import SelectedContext
from keyhouse.console.deployments import ConsoleDeployment
from keyhouse.console.page import TemplateView, page, paged, redirect
from keyhouse.evidence.bundle import MEDIA_TYPE, write_evidence
from keyhouse.transparency.leaf import (
    AnchorLeaf,
    Leaf,
    LogBegunLeaf,
    RecoveredLeaf,
    StartedLeaf,
    TrustChange,
    TrustLeaf,
)
from keyhouse.views.evidence import evidence_of

_KINDS: Final = {
    "manifest": "Manifests",
    "packages": "Packages",
    "secrets": "Secrets",
    "trust": "Trust in workloads",
    "code": "Code",
    "people": "People",
    "recovery": "Recoveries",
    "witnesses": "Witnesses",
}

_KIND_OF_KEY: Final = {"secret": "secrets", "package": "packages", "scope": "trust"}
"""Keys of the update log that only entries of one kind have."""

_WORDS: Final = {
    "marbleType": "type",
    "manifestFingerprint": "manifest",
    "missingAcknowledgments": "agreements missing",
    "missingUsers": "not agreed yet",
}
"""Labels for keys of the update log. Other keys are their own labels."""


class HistoryEvent(msgspec.Struct, frozen=True):
    """An entry of the update log or a leaf of the transparency log, as a row of the page.

    ``details`` has the further keys of the entry with their values. ``often`` marks frequent
    entries, for example anchors: the page hides them by default.
    """

    time: str  # YYYY-MM-DDThh:mm:ss.mmmZ
    kind: str
    text: str
    user: str
    details: tuple[tuple[str, str], ...]
    often: bool = False

    def is_of(self, kind: str) -> bool:
        """Return whether the page shows this row if the filter ``kind`` is selected.

        "" shows all rows except frequent entries. "people" shows the rows with a user.
        """
        if kind == "people":
            return bool(self.user)
        return self.kind == kind if kind else not self.often


@page("history")
async def show(request: Request, deployment: ConsoleDeployment) -> TemplateView:
    """Show the rows of the history, newest first, filtered by a kind and by a word."""
    kind, word = request.query_params.get("kind", ""), request.query_params.get("q", "")
    link = await deployment.link()
    entries = await link.coordinator.update_log()
    events = [_event(entry) for entry in reversed(entries)]
    log = await deployment.log.newest(link.coordinator)
    events += [found for leaf in log.leaves if (found := _event_of(leaf))]
    events.sort(key=lambda each: each.time, reverse=True)
    shown = [each for each in events if each.is_of(kind) and word.casefold() in _searched(each)]
    total = sum(each.is_of("") for each in events)
    values = {"kinds": _KINDS, "kind": kind, "word": word, "total": total, "log": log}
    return TemplateView("history", {**values, "events": paged(request, shown)})


@page("history")
async def older(request: Request, deployment: ConsoleDeployment) -> Response:
    """Read a further step of older leaves of the transparency log, and show the page again."""
    del request
    await deployment.log.older((await deployment.link()).coordinator)
    return redirect(deployment, "history")


@page("history")
async def evidence(request: Request, deployment: ConsoleDeployment) -> Response:
    """Return the evidence file: the transparency log with the objects for its verification."""
    del request
    link = await deployment.link()
    content = await asyncio.to_thread(_evidence, link.described)
    headers = {"content-disposition": f'attachment; filename="{deployment.name}.evidence.json"'}
    return Response(content, media_type=MEDIA_TYPE, headers=headers)


def _evidence(context: SelectedContext) -> bytes:
    trust = context.trust

    def collateral(quote: bytes) -> Collateral:
        given = trust.collateral
        return given if isinstance(given, Collateral) else given(quote)

    with Coordinator.connect(context.address, trust, memory=context.memory) as coordinator:
        return write_evidence(evidence_of(coordinator, collateral))


def _event_of(leaf: Leaf) -> HistoryEvent | None:  # noqa: PLR0911 a case each
    """Return the row for ``leaf``, or None if the update log has a row for its change."""
    then = datetime.fromtimestamp(leaf.time / 1_000_000, UTC)
    time = f"{then:%Y-%m-%dT%H:%M:%S}.{then.microsecond // 1000:03}Z"
    match leaf:
        case RecoveredLeaf():
            holders = ("holders", ", ".join(leaf.holders))
            return HistoryEvent(time, "recovery", "State recovered", "", (holders,))
        case StartedLeaf():
            code = {"version": leaf.version, "platform": leaf.platform, "UniqueID": leaf.unique}
            proof = "in the log" if leaf.quote else "none"
            details = ((name, value) for name, value in code.items() if value)
            return HistoryEvent(
                time, "code", "Coordinator started", "", (*details, ("quote", proof))
            )
        case LogBegunLeaf():
            return HistoryEvent(time, "witnesses", "Transparency log begun", "", _begun(leaf))
        case TrustLeaf(what=TrustChange.REVOKED):
            return None  # the update log also has the reason
        case TrustLeaf():
            is_known = leaf.what == TrustChange.ROOTS
            text = "Marble roots changed" if is_known else f"Change of trust: {leaf.what}"
            subjects = tuple((each[0], ", ".join(each[1:])) for each in leaf.subjects)
            return HistoryEvent(time, "trust", text, leaf.user, subjects)
        case AnchorLeaf():
            return HistoryEvent(
                time, "witnesses", "Anchor for witnesses", "", (("at", leaf.at),), often=True
            )
        case _:
            return None


def _begun(leaf: LogBegunLeaf) -> tuple[tuple[str, str], ...]:
    if leaf.previous is None:
        return (("name", leaf.origin),)
    before = f"{leaf.previous.origin}, {leaf.previous.size:,} entries"
    return ("name", leaf.origin), ("in place of", before), ("because", leaf.previous.reason)


def _event(entry: LogEntry) -> HistoryEvent:
    keys: dict[str, Any] = msgspec.json.decode(entry.text)
    further = {
        name: value for name, value in keys.items() if name not in {"time", "update", "user"}
    }
    kind = next((kind for key, kind in _KIND_OF_KEY.items() if key in further), "manifest")
    details = tuple((_WORDS.get(name, name), _text(value)) for name, value in further.items())
    return HistoryEvent(entry.time, kind, entry.update, entry.user, details)


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_text, value))
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _searched(event: HistoryEvent) -> str:
    parts = (event.text, event.user, *(value for _, value in event.details))
    return " ".join(parts).casefold()

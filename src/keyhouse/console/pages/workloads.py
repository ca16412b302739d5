"""The page Workloads: activated workloads, their counters, and refused activations."""

from collections import Counter
from datetime import datetime, timedelta
from typing import Final

import msgspec
from starlette.requests import Request

from keyhouse.client import Activation, AsyncCoordinator, RefusedActivation, RefusedActivations
from keyhouse.client.errors import CallUnknownError
from keyhouse.console.deployments import Deployment
from keyhouse.console.page import View, page, paged

_BARS: Final = 48
_STEPS: Final = tuple(
    timedelta(seconds=each) for each in (60, 300, 900, 3600, 6 * 3600, 86_400, 7 * 86_400)
)


class Bar(msgspec.Struct, frozen=True):
    """The activations from ``start`` (UTC) until the next bar. ``height``: 0 to 100."""

    start: datetime
    count: int
    height: float


@page("workloads")
async def show(request: Request, deployment: Deployment) -> View:
    """Show the newest part of the audit trail, its plot and the limits, or refused activations."""
    word = request.query_params.get("q", "")
    link = await deployment.link()
    refusals = await _refusals(link.coordinator)
    if refusals is not None and request.query_params.get("show") == "refused":
        found = [each for each in refusals.refused if word.casefold() in _told(each)]
        refused = paged(request, found)
        return View("refused", {"refusals": refusals, "refused": refused, "word": word})
    trail = await link.coordinator.activations()
    counted = await link.coordinator.counters()
    in_force = await deployment.in_force(link.coordinator.log_head)
    newest = trail.activations[::-1]
    shown = [each for each in newest if word.casefold() in _searched(each)]
    counters = {(each.marble_type, each.uuid): each.counters for each in counted.workloads}
    values = {
        "joined": paged(request, shown),
        "word": word,
        "first": trail.first,
        "bars": plot([each.time for each in trail.activations]),
        "limits": counted.limits,
        "counters": counters,
        "refusals": refusals,
        "refused": None,
        "marbles": in_force.manifest.marbles,
    }
    return View("workloads", values)


async def _refusals(coordinator: AsyncCoordinator) -> RefusedActivations | None:
    """Return refused activations, or None from a coordinator of a version without this call."""
    try:
        return await coordinator.refused_activations()
    except CallUnknownError:
        return None


def plot(times: list[str]) -> list[Bar]:
    """Return bars for activations at ``times`` (RFC 3339, ascending), few enough to be readable.

    Each bar covers the shortest suitable time: a minute, 5, 15, an hour, 6, a day or a week.
    """
    moments = [datetime.fromisoformat(each) for each in times]
    if not moments:
        return []
    first, last = min(moments), max(moments)
    step = next((each for each in _STEPS if (last - first) / each < _BARS - 1), _STEPS[-1])
    counts = Counter(int(each.timestamp() // step.total_seconds()) for each in moments)
    end = max(counts)
    begin = end - _BARS + 1
    highest = max(counts[each] for each in range(begin, end + 1))
    return [
        Bar(
            datetime.fromtimestamp(each * step.total_seconds(), first.tzinfo),
            counts[each],
            100 * counts[each] / highest,
        )
        for each in range(begin, end + 1)
    ]


def _told(each: RefusedActivation) -> str:
    return f"{each.marble_type} {each.uuid} {each.code} {each.reason} {each.hint}".casefold()


def _searched(each: Activation) -> str:
    return " ".join((each.marble_type, each.uuid, *each.names, each.tcb_status)).casefold()

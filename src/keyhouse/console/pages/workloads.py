"""The page Workloads: activated workloads, their counters, and refused activations."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from keyhouse.client import Activation, AsyncCoordinator, RefusedActivation, RefusedActivations
from keyhouse.client.errors import CallUnknownError
from keyhouse.console.deployments import ConsoleDeployment
from keyhouse.console.page import TemplateView, page, paged, redirect
from keyhouse.console.pages.revocations import head_of, watches_only

_BARS: Final = 48  # bars of the chart, chosen: they fit on a narrow page
_STEPS: Final = (
    (timedelta(minutes=1), "minute"),
    (timedelta(minutes=5), "5 minutes"),
    (timedelta(minutes=15), "15 minutes"),
    (timedelta(hours=1), "hour"),
    (timedelta(hours=6), "6 hours"),
    (timedelta(days=1), "day"),
    (timedelta(days=7), "week"),
)
# Ends of the vertical axis, times a power of ten: each has a whole number in its middle, or is 1.
_ENDS: Final = (1, 2, 4, 6, 8, 10)


class Bar(msgspec.Struct, frozen=True):
    """A bar of the plot: the number of activations from ``start`` (UTC) until the next bar begins.

    ``height`` is in percent of the vertical axis.
    """

    start: datetime
    count: int
    height: float


class Plot(msgspec.Struct, frozen=True):
    """The plot of activations over time: bars, and the labels of both axes."""

    bars: tuple[Bar, ...]
    # The time of a bar, in words.
    unit: str
    # Numbers at the vertical axis, from the top to 0.
    marks: tuple[int, ...]
    # Times at the horizontal axis: begin, middle and end (UTC).
    times: tuple[datetime, ...]
    # Whether the times are days.
    days: bool

    @property
    def total(self) -> int:
        """The number of all activations in the bars."""
        return sum(each.count for each in self.bars)

    @property
    def highest(self) -> int:
        """The number of activations in the highest bar."""
        return max(each.count for each in self.bars)


@page("workloads")
async def show(request: Request, deployment: ConsoleDeployment) -> TemplateView | Response:
    """Show the newest part of the audit trail, with a plot and the limits of types.

    The query ``show=refused`` shows refused activations instead.
    """
    word = request.query_params.get("q", "")
    link = await deployment.link()
    in_force = await deployment.in_force()
    if watches_only(in_force):  # the coordinator shows activations to users who may update
        return redirect(deployment, "workloads/living")
    refusals = await _refusals(link.coordinator)
    if refusals is not None and request.query_params.get("show") == "refused":
        found = [each for each in refusals.refused if word.casefold() in _search_text(each)]
        refused = paged(request, found)
        values = {"refusals": refusals, "refused": refused, "word": word}
        return TemplateView(
            "workloads/refused", {**head_of("refused", deployment, in_force), **values}
        )
    trail = await link.coordinator.activations()
    counted = await link.coordinator.counters()
    newest = trail.activations[::-1]
    shown = [each for each in newest if word.casefold() in _searched(each)]
    counters = {(each.marble_type, each.uuid): each.counters for each in counted.workloads}
    values = {
        "joined": paged(request, shown),
        "word": word,
        "first": trail.first,
        "plot": plot_of([each.time for each in trail.activations]),
        "limits": counted.limits,
        "counters": counters,
        "refusals": refusals,
        "refused": None,
        "marbles": in_force.manifest.marbles,
    }
    return TemplateView("workloads/joined", {**head_of("joined", deployment, in_force), **values})


async def _refusals(coordinator: AsyncCoordinator) -> RefusedActivations | None:
    """Return the refused activations; None from a coordinator of a version without this call."""
    try:
        return await coordinator.refused_activations()
    except CallUnknownError:
        return None


def plot_of(times: list[str]) -> Plot | None:
    """Return a plot of the activations at ``times`` (RFC 3339), or None without activations.

    Each bar covers the shortest time for which 48 bars suffice: 1, 5 or 15 minutes, 1 or 6 hours, a
    day, or else a week.
    """
    moments = [datetime.fromisoformat(each) for each in times]
    if not moments:
        return None
    first, last = min(moments), max(moments)
    fitting = (each for each in _STEPS if (last - first) / each[0] < _BARS - 1)
    step, unit = next(fitting, _STEPS[-1])
    seconds = step.total_seconds()
    counts = Counter(int(each.timestamp() // seconds) for each in moments)
    end = max(counts) + 1
    numbers = range(end - _BARS, end)
    top = _end_of_axis(max(counts[each] for each in numbers))
    starts = [datetime.fromtimestamp(each * seconds, UTC) for each in (*numbers, end)]
    bars = tuple(
        Bar(start, counts[each], 100 * counts[each] / top)
        for start, each in zip(starts[:-1], numbers, strict=True)
    )
    marks = (top, 0) if top == 1 else (top, top // 2, 0)
    middle = starts[_BARS // 2]
    return Plot(bars, unit, marks, (starts[0], middle, starts[-1]), step >= timedelta(hours=6))


def _end_of_axis(highest: int) -> int:
    """Return the upper end of the vertical axis: the first round number from ``highest`` on."""
    power = 1
    while True:
        for each in _ENDS:
            if each * power >= highest:
                return each * power
        power *= 10


def _search_text(each: RefusedActivation) -> str:
    return f"{each.marble_type} {each.uuid} {each.code} {each.reason} {each.hint}".casefold()


def _searched(each: Activation) -> str:
    return " ".join((each.marble_type, each.uuid, *each.names, each.tcb_status)).casefold()

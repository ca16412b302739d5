"""Figures from the reports of the load program: medians, ratios, and comparison with targets.

A machine is never quiet, so ratios compare only values of the same round. The servers take turns
within a round. The figure is the median of the ratios of all rounds.
"""

from collections.abc import Sequence
from statistics import median
from typing import Final

import msgspec
from benchmarks.load_report import LoadReport

__all__ = [
    "BARE",
    "JOINED",
    "JOINING",
    "JOINING_LARGE",
    "LARGE",
    "LOAD_BOUND",
    "MEDIUM",
    "SHORT",
    "SMALL",
    "WRITTEN",
    "Comparison",
    "Scenario",
    "Series",
    "compare",
]

BARE: Final = "bare"
SHORT: Final = "short"  # a coordinator with a small manifest and an update log of one line
SMALL: Final = "100"  # the number of uploaded secrets
MEDIUM: Final = "1,000"
LARGE: Final = "10,000"
WRITTEN: Final = "written"  # as SMALL, after many earlier writes
JOINING: Final = "small"  # workloads join a coordinator with a small manifest
JOINING_LARGE: Final = "large"  # with 1,000 packages, 1,000 marbles and 1,100 secrets
JOINED: Final = "joined"  # as JOINING, after many earlier activations
LOAD_BOUND: Final = 0.95
"""From this share of its processor on, the load program was the limit, not the server."""

_WANTED_SIZE_RATIO: Final = 0.8


class Scenario(msgspec.Struct, frozen=True):
    """A row of the table, and the servers of the row, which take turns.

    ``slow`` is the percentile of the latency that is the figure; empty: the figure is the rate.
    ``wanted_of_bare`` is the minimum share of the bare server's rate. ``wanted`` is the minimum
    rate, or with ``slow`` the maximum latency in microseconds. ``wanted_p99`` is a maximum latency
    in microseconds beside the rate. ``small`` is the server for the comparison by size.
    """

    name: str
    title: str
    servers: tuple[str, ...]
    slow: str = ""
    wanted_of_bare: float | None = None
    wanted: float | None = None
    wanted_p99: float | None = None
    small: str = SMALL


class Series(msgspec.Struct, frozen=True):
    """The reports of a server in a scenario, one for each round, in order."""

    scenario: str
    server: str
    rounds: list[LoadReport]

    @property
    def rate(self) -> float:
        """The median of requests per second."""
        return median(report.requests_per_second for report in self.rounds)

    def latency(self, percentile: str) -> float:
        """The median of a percentile of the latency, in microseconds."""
        return median(float(getattr(report.latency_us, percentile)) for report in self.rounds)

    @property
    def cpu_per_request(self) -> float | None:
        """The median of the server's processor time per request, in microseconds."""
        known = [r.server_cpu.us_per_request for r in self.rounds if r.server_cpu is not None]
        return median(known) if known else None

    @property
    def errors(self) -> int:
        """All errors of all rounds."""
        return sum(report.errors for report in self.rounds)

    @property
    def load_share(self) -> float:
        """The median share of its processor that the load program used."""
        return median(report.load_cpu_share for report in self.rounds)


class Comparison(msgspec.Struct, frozen=True):
    """The figures of a scenario by server.

    The unit is microseconds in a ``slow`` scenario, else requests per second. Ratios compare
    speeds in both cases: 1 is equal, less is slower. ``of_small`` has the ratios to the server
    ``small`` of the scenario. ``cpu_of_bare`` is the processor time of the bare server for a
    request, divided by the processor time of this server. A finding is ``met`` or ``missed`` with
    the target.
    """

    scenario: str
    title: str
    figures: dict[str, float]
    of_bare: dict[str, float]
    of_small: dict[str, float]
    cpu_of_bare: dict[str, float]
    findings: list[str]


def compare(scenario: Scenario, series: Sequence[Series]) -> Comparison:
    """Compare the servers of a scenario. ``series`` contains a series for each server."""
    found = {one.server: one for one in series if one.scenario == scenario.name}
    by_server = {server: found[server] for server in scenario.servers}
    bare, small = by_server.get(BARE), by_server.get(scenario.small)
    ours = {server: one for server, one in by_server.items() if server != BARE}
    figures = {server: _figure(scenario, one) for server, one in by_server.items()}
    of_bare = {server: _ratio(scenario, one, bare) for server, one in ours.items() if bare}
    of_small = {
        server: _ratio(scenario, one, small)
        for server, one in ours.items()
        if small and server != scenario.small
    }
    return Comparison(
        scenario=scenario.name,
        title=scenario.title,
        figures=figures,
        of_bare=of_bare,
        of_small=of_small,
        cpu_of_bare={server: _cpu_ratio(one, bare) for server, one in ours.items() if bare},
        findings=[
            *_findings(scenario, [figures[server] for server in ours], of_bare, of_small),
            *_late(scenario, [one.latency("p99") for one in ours.values()]),
        ],
    )


def _figure(scenario: Scenario, series: Series) -> float:
    return series.latency(scenario.slow) if scenario.slow else series.rate


def _speed(scenario: Scenario, report: LoadReport) -> float:
    if not scenario.slow:
        return report.requests_per_second
    latency = float(getattr(report.latency_us, scenario.slow))
    return 1 / latency if latency else 0.0


def _ratio(scenario: Scenario, one: Series, other: Series) -> float:
    pairs = zip(one.rounds, other.rounds, strict=True)
    speeds = [(_speed(scenario, a), _speed(scenario, b)) for a, b in pairs]
    return median(a / b if b else 0.0 for a, b in speeds)


def _cpu_ratio(one: Series, bare: Series) -> float:
    ratios = [
        b.server_cpu.us_per_request / a.server_cpu.us_per_request
        for a, b in zip(one.rounds, bare.rounds, strict=True)
        if a.server_cpu and b.server_cpu and a.server_cpu.us_per_request
    ]
    return median(ratios) if ratios else 0.0


def _findings(
    scenario: Scenario,
    figures: Sequence[float],
    of_bare: dict[str, float],
    of_small: dict[str, float],
) -> list[str]:
    found = []
    if scenario.wanted_of_bare is not None and of_bare:
        met = min(of_bare.values()) >= scenario.wanted_of_bare
        found.append(f"{_word(met)}: {scenario.wanted_of_bare:.0%} of bare")
    if scenario.wanted is not None:
        worst = max(figures) if scenario.slow else min(figures)
        met = worst <= scenario.wanted if scenario.slow else worst >= scenario.wanted
        limit = "at most" if scenario.slow else "at least"
        unit = " µs" if scenario.slow else "/s"
        found.append(f"{_word(met)}: {limit} {scenario.wanted:,.0f}{unit}")
    for server, ratio in of_small.items():
        met = ratio >= _WANTED_SIZE_RATIO
        found.append(f"{_word(met)}: {server} within 20 % of {scenario.small}")
    return found


def _late(scenario: Scenario, p99: Sequence[float]) -> list[str]:
    if scenario.wanted_p99 is None:
        return []
    met = max(p99) <= scenario.wanted_p99
    return [f"{_word(met)}: p99 at most {scenario.wanted_p99:,.0f} µs"]


def _word(met: bool) -> str:  # noqa: FBT001 - the only parameter
    return "met" if met else "missed"

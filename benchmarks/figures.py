"""What the readings say: medians, ratios within a round, and how they compare with what is wanted.

A machine is never quiet, so nothing is compared across rounds: the servers take turns within a
round, a ratio is formed in each round, and the median of the ratios is the figure.
"""

from collections.abc import Sequence
from statistics import median
from typing import Final

import msgspec
from benchmarks.loading import LoadReport

__all__ = ["BARE", "LOAD_BOUND", "SIZES", "Comparison", "Scenario", "Series", "compare"]

BARE: Final = "bare"
SIZES: Final = (100, 10_000)
LOAD_BOUND: Final = 0.95
"""Share of its processor from which on the load program, not the server, was the limit."""

_WANTED_SIZE_RATIO: Final = 0.8


class Scenario(msgspec.Struct, frozen=True):
    """A row of the table. ``slow`` rows are judged by their median latency, others by their rate.

    ``wanted_of_bare`` is the least wanted share of the bare server's rate. ``wanted`` is a rate
    (at least), or with ``slow`` a latency in microseconds (at most).
    """

    name: str
    title: str
    with_bare: bool
    slow: bool = False
    wanted_of_bare: float | None = None
    wanted: float | None = None


class Series(msgspec.Struct, frozen=True):
    """The reports of one server in one scenario, a round each, in order."""

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
        """The median of what the load program used of its processor."""
        return median(report.load_cpu_share for report in self.rounds)


class Comparison(msgspec.Struct, frozen=True):
    """A scenario's figures: microseconds for a ``slow`` one, else requests per second.

    Ratios are of speed in both cases: 1 is equal, less is slower. ``cpu_of_bare`` is the processor
    time that the bare server needs for a request, over that of this one. Findings are ``met`` or
    ``missed``, each with what was wanted.
    """

    scenario: str
    title: str
    bare: float | None
    figures: dict[int, float]
    of_bare: dict[int, float]
    cpu_of_bare: dict[int, float]
    large_of_small: float
    findings: list[str]


def compare(scenario: Scenario, series: Sequence[Series]) -> Comparison:
    """Compare the servers in one scenario.

    ``series`` has one of each size, and one of the bare server if it took part.
    """
    by_server = {one.server: one for one in series if one.scenario == scenario.name}
    bare = by_server.get(BARE)
    small, large = (by_server[str(size)] for size in SIZES)
    figures = {size: _figure(scenario, by_server[str(size)]) for size in SIZES}
    of_bare = {size: _ratio(scenario, by_server[str(size)], bare) for size in SIZES} if bare else {}
    large_of_small = _ratio(scenario, large, small)
    return Comparison(
        scenario=scenario.name,
        title=scenario.title,
        bare=_figure(scenario, bare) if bare else None,
        figures=figures,
        of_bare=of_bare,
        cpu_of_bare={size: _cpu_ratio(by_server[str(size)], bare) for size in SIZES}
        if bare
        else {},
        large_of_small=large_of_small,
        findings=_findings(scenario, figures, of_bare, large_of_small),
    )


def _figure(scenario: Scenario, series: Series) -> float:
    return series.latency("p50") if scenario.slow else series.rate


def _speed(scenario: Scenario, report: LoadReport) -> float:
    if not scenario.slow:
        return report.requests_per_second
    return 1 / report.latency_us.p50 if report.latency_us.p50 else 0.0


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
    figures: dict[int, float],
    of_bare: dict[int, float],
    large_of_small: float,
) -> list[str]:
    found = []
    if scenario.wanted_of_bare is not None and of_bare:
        met = min(of_bare.values()) >= scenario.wanted_of_bare
        found.append(f"{_word(met)}: {scenario.wanted_of_bare:.0%} of bare")
    if scenario.wanted is not None:
        worst = max(figures.values()) if scenario.slow else min(figures.values())
        met = worst <= scenario.wanted if scenario.slow else worst >= scenario.wanted
        limit = "at most" if scenario.slow else "at least"
        unit = " µs" if scenario.slow else "/s"
        found.append(f"{_word(met)}: {limit} {scenario.wanted:,.0f}{unit}")
    met = large_of_small >= _WANTED_SIZE_RATIO
    found.append(f"{_word(met)}: {SIZES[1]:,} within 20 % of {SIZES[0]:,}")
    return found


def _word(met: bool) -> str:  # noqa: FBT001 - the one thing it takes
    return "met" if met else "missed"

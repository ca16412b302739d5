"""The report of the main benchmark as plain text."""

from collections.abc import Iterable, Sequence
from statistics import median
from typing import Final

from benchmarks.figures import (
    BARE,
    JOINED,
    JOINING,
    JOINING_LARGE,
    LARGE,
    LOAD_BOUND,
    MEDIUM,
    SHORT,
    SMALL,
    WRITTEN,
    Comparison,
)
from benchmarks.quotes import report as quote_lines
from benchmarks.result import Result
from benchmarks.scenarios import JOINS, MARBLES, SCENARIOS

__all__ = ["report"]

_DISTURBED: Final = 0.1


def report(result: Result) -> str:
    """Return the tables, with remarks about unreliable figures."""
    titles = {scenario.name: scenario.title for scenario in (*SCENARIOS, *JOINS)}
    runs = f"medians of {result.rounds} runs of {result.seconds:g} s"
    parts = [
        _heading(result),
        f"Requests per second (p50, p99: microseconds), {runs}\n{_speed_table(result.comparisons)}",
        *(
            [f"Activations per second, {runs}\n{_joins_table(result.joins)}"]
            if result.joins
            else []
        ),
        f"Wanted\n{_findings([*result.comparisons, *result.joins])}",
        f"Costs\n{_cost_table(result, titles)}",
        f"Footprint\n{_footprint_table(result)}",
    ]
    parts.append(f"Verification of one quote, collateral cached\n{quote_lines(result.quotes)}")
    notes = _remarks(result, titles)
    if notes:
        parts.append("Remarks\n" + "\n".join(notes))
    return "\n\n".join(parts)


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    """Return aligned rows: the first column to the left, all further columns to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def _speed_table(comparisons: Iterable[Comparison]) -> str:
    ours = (SHORT, SMALL, MEDIUM, LARGE, WRITTEN)
    servers, grown = (BARE, *ours), (MEDIUM, LARGE, WRITTEN)
    ratios = (*(f"{name}/{BARE}" for name in ours), *(f"{name}/{SMALL}" for name in grown))
    rows = [["", *servers, *ratios]]
    rows += [
        [
            one.title,
            *(_number(one.figures.get(name)) for name in servers),
            *(_ratio(one.of_bare.get(name)) for name in ours),
            *(_ratio(one.of_small.get(name)) for name in grown),
        ]
        for one in comparisons
    ]
    return _aligned(rows)


def _joins_table(comparisons: Iterable[Comparison]) -> str:
    grown = (JOINING_LARGE, JOINED)
    rows = [["", *MARBLES, *(f"{name}/{JOINING}" for name in grown)]]
    rows += [
        [
            one.title,
            *(_number(one.figures.get(name)) for name in MARBLES),
            *(_ratio(one.of_small.get(name)) for name in grown),
        ]
        for one in comparisons
    ]
    return _aligned(rows)


def _findings(comparisons: Sequence[Comparison]) -> str:
    rows = [(one.title, finding) for one in comparisons for finding in one.findings]
    width = max(len(title) for title, _ in rows)
    return "\n".join(f"{title.ljust(width)}  {finding}" for title, finding in rows)


def _cost_table(result: Result, titles: dict[str, str]) -> str:
    of_bare = {
        (one.scenario, server): ratio
        for one in result.comparisons
        for server, ratio in one.cpu_of_bare.items()
    }
    rows = [["", "server", "p50 µs", "p99 µs", "max µs", "CPU µs/request", "of bare", "load CPU"]]
    rows += [
        [
            titles[one.scenario],
            one.server,
            *(_number(one.latency(name)) for name in ("p50", "p99", "max")),
            _number(one.cpu_per_request),
            _ratio(of_bare.get((one.scenario, one.server))),
            f"{one.load_share:.0%}",
        ]
        for one in result.series
    ]
    return _aligned(rows)


def _remarks(result: Result, titles: dict[str, str]) -> list[str]:
    """Return the remarks about the machine and about single rows."""
    found = []
    if result.surroundings.processors < 2:
        found.append("only one processor is available: server and load competed for time")
    taken = result.disturbance.others_share + result.disturbance.stolen_share
    if taken >= _DISTURBED:
        found.append(f"other work took {taken:.0%} of the machine: rates are too low, ratios rough")
    for one in result.series:
        where = f"{titles[one.scenario]}, {one.server}"
        if one.errors:
            kinds = {kind for run in one.rounds for kind in (*run.statuses, *run.failures)}
            found.append(f"{where}: {one.errors} errors among {', '.join(sorted(kinds))}")
        if one.load_share >= LOAD_BOUND:
            found.append(f"{where}: the load program was the limit, compare CPU per request")
    return found


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.1f}" if value < 100 else f"{value:,.0f}"


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _heading(result: Result) -> str:
    machine, disturbance = result.surroundings, result.disturbance
    return "\n".join(
        [
            f"{result.time}: {machine.processor}, {machine.processors} processors used",
            f"kernel {machine.kernel}, Python {machine.python}, load from {result.load_program}",
            f"one turn of a Python loop {machine.loop_ns:,.0f} ns",
            f"one signature on P-384 verified {machine.verify_us:,.0f} µs",
            f"data on {machine.file_system}, write and sync of 4 KiB {machine.sync_us:,.0f} µs",
            f"used by other programs under load {disturbance.others_share:.0%} of all processors",
            f"withheld by a hypervisor {disturbance.stolen_share:.0%}",
        ]
    )


def _footprint_table(result: Result) -> str:
    found, earlier_writes = result.footprint, result.earlier_writes
    rows = [
        ["first start to first answer", f"{median(found.first_start_ms):,.0f} ms"],
        ["memory, no manifest", _mebibytes(found.empty_kib)],
    ]
    for name, times in found.start_ms.items():
        held = f"{SMALL} secrets after {earlier_writes:,} writes"
        held = held if name == WRITTEN else f"{name} secrets"
        rows += [
            [f"start with {held}", f"{median(times):,.0f} ms"],
            [f"memory, {held}", _mebibytes(found.loaded_kib[name])],
            [f"memory, {held}, after the load", _mebibytes(found.worked_kib[name])],
        ]
    for name, about in {
        JOINING: "a small manifest, workloads join",
        JOINING_LARGE: "1,000 marbles, workloads join",
        JOINED: f"{result.earlier_activations:,} activations",
    }.items():
        if name in found.loaded_kib:
            rows += [
                [f"memory, {about}", _mebibytes(found.loaded_kib[name])],
                [f"memory, {about}, after the load", _mebibytes(found.worked_kib[name])],
            ]
    title = f"upload of 1,000 secrets in one request, {LARGE} held"
    rows.append([title, f"{median(found.bulk_upload_ms):,.1f} ms"])
    title = f"set a manifest of {found.large_manifest_bytes / 1e6:.2f} MB"
    rows.append([title, f"{median(found.large_manifest_ms):,.0f} ms"])
    rows.append(["start with it", f"{median(found.large_start_ms):,.0f} ms"])
    title = "last acknowledgement of an update to it"
    rows.append([title, f"{median(found.large_update_ms):,.0f} ms"])
    title = f"recovery of {found.recovered_records:,} records"
    rows.append([title, f"{median(found.recovery_ms):,.0f} ms"])
    return _aligned(rows)


def _mebibytes(kib: int) -> str:
    return f"{kib / 1024:,.1f} MiB"

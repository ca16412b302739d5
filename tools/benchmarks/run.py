"""Measure a real coordinator beside a bare server, and print a comparison.

``tools/benchmarks/README.md`` explains each line. No time is an error. Only a failed request is an
error.
"""

import datetime as dt
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NoReturn

import msgspec
from benchmarks.figures import BARE, JOINED, LARGE, WRITTEN, Scenario, Series, compare
from benchmarks.load_report import LoadReport
from benchmarks.loading import run_load
from benchmarks.manifests import envelope, large_manifest
from benchmarks.options import Options
from benchmarks.processes import Processors, TroubleError
from benchmarks.quotes import measure as measure_quotes
from benchmarks.report import report
from benchmarks.result import Disturbance, Footprint, Result
from benchmarks.scenarios import JOINS, MARBLES, SCENARIOS, SECRETS, Requests
from benchmarks.servers import Servers
from benchmarks.surroundings import busy, look_around

_TERMINATED: Final = 143
_WRITING_SECONDS: Final = 2.0
_JOINING_SECONDS: Final = 15.0
_FEW_WRITES: Final = 1000


def main() -> None:
    """Measure, print the tables, and write the file of ``--json``."""
    options = Options.from_arguments(__doc__ or "")
    signal.signal(signal.SIGTERM, _terminated)
    processors = Processors.available()
    os.sched_setaffinity(0, {processors.load})
    try:
        with tempfile.TemporaryDirectory(prefix="keyhouse-bench-", dir=options.folder) as folder:
            if options.gramine:
                _beside_gramine(options, Path(folder), processors)
                return
            result = _measure(options, Path(folder), processors)
    except TroubleError as trouble:
        sys.exit(f"error: {trouble}")
    print(report(result))
    _write(options, result)
    if any(series.errors for series in result.series):
        sys.exit("error: requests failed, see the remarks")


def _beside_gramine(options: Options, folder: Path, processors: Processors) -> None:
    if shutil.which("gramine-direct") is None:
        print("skipped: gramine-direct is not on PATH: see CONTRIBUTING.md, Tests")
        return
    from benchmarks.enclaves import enclave_report, measure_enclaves

    figures = measure_enclaves(options, folder, processors)
    print(enclave_report(figures))
    _write(options, figures)


def _write(options: Options, figures: msgspec.Struct) -> None:
    if options.json is not None:
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(figures)) + b"\n")


def _measure(options: Options, folder: Path, processors: Processors) -> Result:
    surroundings = look_around(folder, processors)
    manifest = large_manifest()
    with Servers(options.keyhouse, folder, processor=processors.server) as servers:
        requests = Requests(folder, servers.user)
        _start_all(options, servers, requests, processors)
        loaded = servers.memory()
        series, disturbance = _watched_rounds(options, servers, requests, processors)
        worked = servers.memory()
        _say("uploading many secrets at once")
        bulk = servers.bulk_times(LARGE, SECRETS[LARGE], 5 * options.rounds)
        _say("setting large manifests")
        taken, large_starts = servers.manifest_times(envelope(manifest), options.rounds)
        _say("applying large updates")
        updated = servers.update_times(options.rounds)
        _say("recovering a long journal")
        recovered = servers.recovery_times(options.records, options.rounds)
    return Result(
        time=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        surroundings=surroundings,
        load_program=options.program.name,
        seconds=options.seconds,
        rounds=options.rounds,
        earlier_writes=options.earlier_writes,
        earlier_activations=options.earlier_activations,
        disturbance=disturbance,
        comparisons=[compare(one, series) for one in _scenarios(options) if one not in JOINS],
        joins=[compare(one, series) for one in _scenarios(options) if one in JOINS],
        footprint=Footprint(
            first_start_ms=_milliseconds(servers.first_starts),
            start_ms={name: _milliseconds(times) for name, times in servers.starts.items()},
            empty_kib=servers.empty_kib,
            loaded_kib=loaded,
            worked_kib=worked,
            bulk_upload_ms=_milliseconds(bulk),
            large_manifest_bytes=len(manifest),
            large_manifest_ms=_milliseconds(taken),
            large_start_ms=_milliseconds(large_starts),
            large_update_ms=_milliseconds(updated),
            recovered_records=options.records,
            recovery_ms=_milliseconds(recovered),
        ),
        quotes=measure_quotes(5 * options.rounds),
        series=series,
    )


def _start_all(
    options: Options, servers: Servers, requests: Requests, processors: Processors
) -> None:
    """Start the coordinators, fill their states, and restart the coordinators with secrets."""
    servers.hold_little()
    for name, size in SECRETS.items():
        _say(f"starting a coordinator and uploading {size:,} secrets")
        coordinator = servers.hold_secrets(name, size)
        written = 0
        while name == WRITTEN and written < options.earlier_writes:
            _say(f"{written:,} of {options.earlier_writes:,} earlier writes are done")
            written += _done(
                run_load(
                    options.program,
                    requests.writes(size),
                    port=coordinator.port,
                    pid=coordinator.process.pid,
                    processor=processors.load,
                    seconds=_WRITING_SECONDS if options.earlier_writes > _FEW_WRITES else 0.1,
                    warmup=0.01,
                )
            )
        servers.restart(name, options.rounds)
    for name, marbles in MARBLES.items() if options.program.complete else ():
        _say(f"starting a coordinator with {marbles:,} marbles")
        servers.hold_marbles(name, marbles)
    if options.program.complete:
        _join_earlier(options, servers, requests, processors)


def _join_earlier(
    options: Options, servers: Servers, requests: Requests, processors: Processors
) -> None:
    """Activate ``earlier_activations`` workloads at the coordinator ``JOINED``."""
    coordinator, done = servers.coordinators[JOINED], 0
    while (left := options.earlier_activations - done) > 0:
        _say(f"{done:,} of {options.earlier_activations:,} earlier activations are done")
        done += _done(
            run_load(
                options.program,
                requests.joins(JOINED, at_most=left),
                port=coordinator.mesh_port,
                pid=coordinator.process.pid,
                processor=processors.load,
                seconds=_JOINING_SECONDS,
                warmup=0.0,  # activations of a warm-up do not count, so the loop might not end
            )
        )


def _done(report: LoadReport) -> int:
    """Return the number of requests. Raises ``TroubleError`` if a request failed."""
    if report.errors:
        kinds = ", ".join(sorted({*report.statuses, *report.failures}))
        raise TroubleError(f"{report.errors} earlier requests failed, among {kinds}")
    return report.requests


def _watched_rounds(
    options: Options, servers: Servers, requests: Requests, processors: Processors
) -> tuple[list[Series], Disturbance]:
    """Run all rounds, and measure the processor time of other programs meanwhile."""
    before, ours_before = busy(), _our_seconds(servers)
    series = _rounds(options, servers, requests, processors)
    after, ours_after = busy(), _our_seconds(servers)
    possible = after.possible - before.possible
    others = (after.used - before.used) - (ours_after - ours_before)
    return series, Disturbance(
        others_share=round(max(others, 0) / possible, 3),
        stolen_share=round((after.stolen - before.stolen) / possible, 3),
    )


def _rounds(
    options: Options, servers: Servers, requests: Requests, processors: Processors
) -> list[Series]:
    """Run each scenario in each round. Within a scenario the servers take turns."""
    reports: dict[tuple[str, str], list[LoadReport]] = {}
    for number in range(options.rounds):
        for scenario in _scenarios(options):
            _say(f"round {number + 1} of {options.rounds}: {scenario.title}")
            for name, port, pid in _turns(scenario, servers):
                found = run_load(
                    options.program,
                    requests.job(scenario, name),
                    beside=requests.beside(scenario, name),
                    port=port,
                    pid=pid,
                    processor=processors.load,
                    seconds=options.seconds,
                    warmup=options.warmup,
                )
                reports.setdefault((scenario.name, name), []).append(found)
    return [Series(scenario, server, rounds) for (scenario, server), rounds in reports.items()]


def _scenarios(options: Options) -> list[Scenario]:
    """Return the scenarios that the load program supports."""
    if options.program.complete:
        return [*SCENARIOS, *JOINS]
    return [one for one in SCENARIOS if one.name != "new-hybrid"]


def _turns(scenario: Scenario, servers: Servers) -> Iterator[tuple[str, int, int]]:
    """Yield name, port and process ID of each server in the scenario."""
    for name in scenario.servers:
        if name == BARE:
            yield name, servers.bare_port, servers.bare.pid
        else:
            one = servers.coordinators[name]
            yield name, one.mesh_port if scenario in JOINS else one.port, one.process.pid


def _our_seconds(servers: Servers) -> float:
    """Return the processor time of the servers, of this process, and of ended load programs."""
    own = os.times()
    load = own.children_user + own.children_system
    return servers.processor_seconds() + own.user + own.system + load


def _milliseconds(seconds: Iterable[float]) -> list[float]:
    return [round(value * 1000, 1) for value in seconds]


def _say(text: str) -> None:
    sys.stderr.write(f"{text} ...\n")


def _terminated(_number: int, _frame: object) -> NoReturn:
    """Exit by an exception, so that the contexts stop servers and remove folders."""
    sys.exit(_TERMINATED)


if __name__ == "__main__":
    main()

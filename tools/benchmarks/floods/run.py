"""Measure the waits of an honest client beside floods of cheap records, requests and frames.

The table compares the times with a control. No time is an error.
"""

import argparse
import os
import signal
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import IO, Final, NoReturn

from benchmarks.coordinator import Coordinator
from benchmarks.floods.costs import Costs
from benchmarks.floods.flood import Flooded, flood, undisturbed
from benchmarks.floods.kinds import CONTROL, KINDS
from benchmarks.manifests import envelope
from benchmarks.processes import Processors, TroubleError
from benchmarks.rows import Figures, Row, at_most, table, write_json
from benchmarks.surroundings import look_around
from support.samples.deployment import manifest

_WAIT: Final = "longest wait, ms"
_WORK: Final = "of it processor, ms"
_COST: Final = "one unit, processor, ms"
_COLUMNS: Final = (
    _WAIT,
    _WORK,
    "median, ms",
    "processor, ms",
    "units sent",
    "cut off",
    _COST,
)
_OF_CONTROL: Final = 2
_KIB: Final = 1024
_TERMINATED: Final = 143


def main() -> None:
    """Measure, print the table, and write the file of ``--json``."""
    options = _options()
    signal.signal(signal.SIGTERM, _terminated)
    processors = Processors.available()
    os.sched_setaffinity(0, {processors.load})
    try:
        with tempfile.TemporaryDirectory(prefix="keyhouse-bench-", dir=options.directory) as name:
            folder = Path(name)
            surroundings = look_around(folder, processors)
            with (folder / "honest.log").open("ab") as log:
                rows = _measure(options, folder, processors, log)
    except TroubleError as trouble:
        sys.exit(f"error: {trouble}")
    figures = Figures(surroundings, 0.0, options.rounds, rows)
    print(table(figures, _COLUMNS))
    write_json(figures, options.json)


def _terminated(_number: int, _frame: object) -> NoReturn:
    """Exit by an exception, so that the contexts stop the coordinator and remove the folder."""
    sys.exit(_TERMINATED)


def _measure(
    options: argparse.Namespace, folder: Path, processors: Processors, log: IO[bytes]
) -> list[Row]:
    """Return a row without a flood, and then a row for each kind."""
    keyhouse = options.keyhouse or Path(sys.executable).parent / "keyhouse"
    coordinator = Coordinator(keyhouse, folder / "flooded", processor=processors.server)
    try:
        coordinator.post("/api/v2/manifest", envelope(manifest()))
        alone = [undisturbed(coordinator, log) for _ in range(options.rounds)]
        rows = [
            Row(
                "no flood",
                {
                    _WAIT: [each.longest_ms for each in alone],
                    _WORK: [each.most_work_ms for each in alone],
                    "median, ms": [each.median_ms for each in alone],
                },
            )
        ]
        control = 0.0
        for kind in KINDS:
            sys.stderr.write(f"{kind.name} ...\n")
            found = [
                flood(
                    coordinator,
                    kind,
                    options.connections,
                    options.kilobytes * _KIB,
                    folder,
                    log,
                )
                for _ in range(options.rounds)
            ]
            most = median(each.waits.most_work_ms for each in found)
            control = most if kind is CONTROL else control
            finding = "" if kind is CONTROL else at_most(most, _OF_CONTROL * control, "ms")
            with Costs(coordinator, folder, options.rounds) as costs:
                values = _values(found) | {_COST: [costs.of(kind)]}
            rows.append(Row(kind.name, values, finding))
        return rows
    finally:
        coordinator.stop()


def _values(found: list[Flooded]) -> dict[str, list[float]]:
    figures = [
        (
            each.waits.longest_ms,
            each.waits.most_work_ms,
            each.waits.median_ms,
            each.processor_ms,
            float(each.units),
            float(each.cut_off),
        )
        for each in found
    ]
    return {
        name: list(column)
        for name, column in zip(_COLUMNS[:-1], zip(*figures, strict=True), strict=True)
    }


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    parser.add_argument("--floods", action="store_true", required=True)
    parser.add_argument("--connections", type=int, default=100, help="concurrent connections")
    parser.add_argument("--kilobytes", type=int, default=60, help="KiB for each connection")
    parser.add_argument("--rounds", type=int, default=3, help="floods of each kind")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures as JSON")
    parser.add_argument("--directory", type=Path, help="directory for temporary data")
    parser.add_argument("--keyhouse", type=Path, metavar="PROGRAM", help="another build to measure")
    options = parser.parse_args()
    if not 1 <= options.connections <= 1000 or not 1 <= options.kilobytes <= 1024:
        parser.error("--connections goes from 1 to 1,000, --kilobytes from 1 to 1,024")
    if not 1 <= options.rounds <= 20:
        parser.error("--rounds goes from 1 to 20")
    return options


if __name__ == "__main__":
    main()

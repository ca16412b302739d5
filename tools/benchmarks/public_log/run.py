"""Measure the transparency log: leaves, heads, files, proofs, witnesses, tiles, evidence.

No time is an error.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.loading import LoadProgram
from benchmarks.processes import Processors, TroubleError
from benchmarks.public_log.evidence import ENTRIES, evidence_rows
from benchmarks.public_log.measured import COLUMN
from benchmarks.public_log.serving import Serving
from benchmarks.public_log.tree import log_rows
from benchmarks.rows import Figures, Row, table, write_json
from benchmarks.surroundings import look_around


def main() -> None:
    """Measure, print the table, and write the file of ``--json``."""
    options = _options()
    processors = Processors.available()
    try:
        with tempfile.TemporaryDirectory(prefix="keyhouse-bench-", dir=options.directory) as name:
            surroundings = look_around(Path(name), processors)
            rows = []
            for row in _rows(options, Path(name), processors):
                sys.stderr.write(f"{row.what} ...\n")
                rows.append(row)
    except TroubleError as trouble:
        sys.exit(f"error: {trouble}")
    figures = Figures(surroundings, options.seconds, options.rounds, rows)
    print(table(figures, [COLUMN]))
    write_json(figures, options.json)


def _rows(options: argparse.Namespace, folder: Path, processors: Processors) -> Iterator[Row]:
    serving = Serving(
        folder=folder,
        program=LoadProgram("load", (str(options.load.resolve()),), complete=True),
        keyhouse=Path(sys.executable).parent / "keyhouse",
        processors=processors,
        seconds=options.seconds,
        rounds=options.rounds,
    )
    yield from serving.tile_rows()
    yield from serving.witnessed_rows()
    state = folder / "state"
    state.mkdir(0o700)
    yield from log_rows(state, options.leaves, options.rounds)
    yield from evidence_rows(options.evidence or ENTRIES, options.rounds)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    parser.add_argument("--log", action="store_true", required=True)
    parser.add_argument("--seconds", type=float, default=2.0, help="length of each run")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each kind")
    parser.add_argument("--leaves", type=int, default=1_000_000, help="leaves of the large log")
    parser.add_argument(
        "--evidence", type=int, nargs="+", metavar="ENTRIES", help="entries of the evidence files"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures as JSON")
    parser.add_argument("--directory", type=Path, help="directory for temporary data")
    parser.add_argument(
        "--load", type=Path, required=True, metavar="PROGRAM", help="the load program in Go"
    )
    options = parser.parse_args()
    if not 0 < options.seconds <= 60 or not 1 <= options.rounds <= 20:
        parser.error("--seconds goes up to 60, --rounds from 1 to 20")
    if not all(28 <= each <= 1_000_000 for each in (options.leaves, *(options.evidence or ()))):
        parser.error("--leaves and --evidence go from 28 to 1,000,000")
    return options


if __name__ == "__main__":
    main()

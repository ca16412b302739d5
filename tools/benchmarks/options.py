"""The command line of the benchmarks."""

import argparse
import sys
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
from benchmarks.loading import LoadProgram

__all__ = ["Options"]

_ROUNDS: Final = 3
_MOST_EARLIER: Final = 1_000_000


class _Usual(NamedTuple):
    """Default values of the options."""

    seconds: float
    writes: int
    joins: int
    records: int


_THOROUGH: Final = _Usual(seconds=2.0, writes=30_000, joins=100_000, records=100_000)
_QUICK: Final = _Usual(seconds=0.3, writes=10_000, joins=2_000, records=5_000)


class Options(msgspec.Struct, frozen=True):
    """The options of a benchmark.

    ``seconds`` is the length of a run. ``folder`` is the directory for temporary data; None is the
    system's. ``earlier_writes`` and ``earlier_activations`` are the numbers of changes before the
    measurement of the coordinators ``written`` and ``joined``. ``records`` is the number of
    records since the base in the recovered journal.
    """

    seconds: float
    rounds: int
    earlier_writes: int
    earlier_activations: int
    records: int
    program: LoadProgram
    keyhouse: Path
    folder: Path | None
    json: Path | None
    gramine: bool  # measure only coordinators under gramine-direct beside native coordinators

    @property
    def warmup(self) -> float:
        """Seconds of load before each run, which do not count."""
        return min(0.3, self.seconds / 3)

    @classmethod
    def from_arguments(cls, description: str) -> "Options":
        """Parse the command line. An invalid command line ends the process."""
        parser = _parser(description)
        given = parser.parse_args()
        usual = _QUICK if given.quick else _THOROUGH
        seconds = usual.seconds if given.seconds is None else given.seconds
        if not 0 < seconds <= 60 or not 1 <= given.rounds <= 20:
            parser.error("--seconds must be above 0 and at most 60, --rounds 1 to 20")
        writes = usual.writes if given.earlier_writes is None else given.earlier_writes
        joins = usual.joins if given.earlier_activations is None else given.earlier_activations
        if not 1 <= writes <= _MOST_EARLIER or not 1 <= joins <= _MOST_EARLIER:
            parser.error("--earlier-writes and --earlier-activations must be 1 to 1,000,000")
        return cls(
            seconds=seconds,
            rounds=given.rounds,
            earlier_writes=writes,
            earlier_activations=joins,
            records=usual.records,
            program=_program(given.load),
            keyhouse=given.keyhouse or Path(sys.executable).parent / "keyhouse",
            folder=given.directory,
            json=given.json,
            gramine=given.gramine,
        )


def _parser(description: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="scripts/bench", description=description)
    parser.add_argument("--quick", action="store_true", help="shorter and rougher")
    parser.add_argument(
        "--seconds", type=float, help=f"length of each run (default {_THOROUGH.seconds:g})"
    )
    parser.add_argument("--rounds", type=int, default=_ROUNDS, help="runs of each kind")
    parser.add_argument(
        "--earlier-writes",
        type=int,
        metavar="N",
        help=f"uploads before the coordinator 'written' runs (default {_THOROUGH.writes:,})",
    )
    parser.add_argument(
        "--earlier-activations",
        type=int,
        metavar="N",
        help=f"activations before the coordinator 'joined' runs (default {_THOROUGH.joins:,})",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures as JSON")
    parser.add_argument("--directory", type=Path, help="directory for temporary data")
    parser.add_argument(
        "--gramine", action="store_true", help="measure only gramine-direct beside native"
    )
    parser.add_argument("--load", type=Path, metavar="PROGRAM", help="the load program")
    parser.add_argument("--keyhouse", type=Path, metavar="PROGRAM", help="another build to measure")
    return parser


def _program(built: Path | None) -> LoadProgram:
    if built is None:
        return LoadProgram(
            "python_load", (sys.executable, "-m", "benchmarks.python_load"), complete=False
        )
    return LoadProgram("load", (str(built.resolve()),), complete=True)

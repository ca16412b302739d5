"""The command line of the benchmarks."""

import argparse
import sys
from pathlib import Path
from typing import Final

import msgspec
from benchmarks.loading import LoadProgram

__all__ = ["Options"]

_ROUNDS: Final = 3
_SECONDS: Final = 2.0
_QUICK_SECONDS: Final = 0.3
_EARLIER_WRITES: Final = 30_000
_QUICK_EARLIER_WRITES: Final = 10_000
_EARLIER_ACTIVATIONS: Final = 100_000
_QUICK_EARLIER_ACTIVATIONS: Final = 2_000
_RECORDS: Final = 100_000
_QUICK_RECORDS: Final = 5_000


class Options(msgspec.Struct, frozen=True):
    """What is asked for. ``seconds`` is of one run; ``folder`` is where the data lies meanwhile.

    ``earlier_writes`` are those that one coordinator has behind it when it is measured, as another
    has ``earlier_activations``;
    ``records`` are those since the base in the journal that is recovered.
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

    @property
    def warmup(self) -> float:
        """Seconds of load before each run that do not count."""
        return min(0.3, self.seconds / 3)

    @classmethod
    def from_arguments(cls, description: str) -> "Options":
        """Read the command line. Ends the process where it cannot be read."""
        parser = _parser(description)
        given = parser.parse_args()
        seconds = given.seconds or (_QUICK_SECONDS if given.quick else _SECONDS)
        if not 0 < seconds <= 60 or not 1 <= given.rounds <= 20:
            parser.error("--seconds goes up to 60, --rounds from 1 to 20")
        earlier = given.earlier_writes or (
            _QUICK_EARLIER_WRITES if given.quick else _EARLIER_WRITES
        )
        if not 1 <= earlier <= 1_000_000:
            parser.error("--earlier-writes goes from 1 to 1,000,000")
        if not 0 <= (given.earlier_activations or 0) <= 1_000_000:
            parser.error("--earlier-activations goes from 1 to 1,000,000")
        return cls(
            seconds=seconds,
            rounds=given.rounds,
            earlier_writes=earlier,
            earlier_activations=given.earlier_activations
            or (_QUICK_EARLIER_ACTIVATIONS if given.quick else _EARLIER_ACTIVATIONS),
            records=_QUICK_RECORDS if given.quick else _RECORDS,
            program=_program(given.load),
            keyhouse=given.keyhouse or Path(sys.executable).parent / "keyhouse",
            folder=given.directory,
            json=given.json,
        )


def _parser(description: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="scripts/bench", description=description)
    parser.add_argument("--quick", action="store_true", help="shorter and rougher")
    parser.add_argument("--seconds", type=float, help=f"of each run, {_SECONDS:g} if not given")
    parser.add_argument("--rounds", type=int, default=_ROUNDS, help="runs of each kind")
    parser.add_argument(
        "--earlier-writes",
        type=int,
        metavar="N",
        help=f"what one coordinator has behind it, {_EARLIER_WRITES:,} if not given",
    )
    parser.add_argument(
        "--earlier-activations",
        type=int,
        metavar="N",
        help=f"the same for another, {_EARLIER_ACTIVATIONS:,} if not given",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures as JSON")
    parser.add_argument("--directory", type=Path, help="where the data lies while it is measured")
    parser.add_argument("--load", type=Path, metavar="PROGRAM", help="the load program")
    parser.add_argument("--keyhouse", type=Path, metavar="PROGRAM", help="another build to measure")
    return parser


def _program(built: Path | None) -> LoadProgram:
    if built is None:
        return LoadProgram(
            "python_load", (sys.executable, "-m", "benchmarks.python_load"), complete=False
        )
    return LoadProgram("load", (str(built.resolve()),), complete=True)

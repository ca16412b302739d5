"""The command line of a chaos run."""

import argparse
import shutil
from collections.abc import Callable
from pathlib import Path
from random import SystemRandom
from typing import Final

import msgspec
from fuzz.chaos.campaign import Settings
from fuzz.chaos.faults import DRAWN, KINDS
from fuzz.chaos.plants import PLANTS
from fuzz.options import duration
from support.process.start import KEYHOUSE

__all__ = ["Options"]

_USUAL: Final = 120.0  # seconds
_MOST_MACHINES: Final = 8
_MOST_REPLICAS: Final = 4
_LONGEST: Final = 6 * 3600.0


class Options(msgspec.Struct, frozen=True):
    """The settings of the command: a run, or histories to judge again."""

    settings: Settings
    json: Path | None
    history: Path | None
    findings: Path
    plant: str
    check: tuple[Path, ...]
    second_opinion: bool
    shows_list: bool

    @classmethod
    def read(cls, arguments: list[str]) -> "Options":
        """Read the command line. Ends the process for invalid arguments."""
        parser = _parser()
        given = parser.parse_args(arguments)
        if not 1 <= given.machines <= _MOST_MACHINES or not 1 <= given.replicas <= _MOST_REPLICAS:
            parser.error(
                f"--machines must be 1 to {_MOST_MACHINES}, --replicas 1 to {_MOST_REPLICAS}"
            )
        faults = tuple(kind for kind in given.faults if kind not in given.without)
        for program in (given.keyhouse, given.upgrade_to or given.keyhouse):
            if shutil.which(program) is None:
                parser.error(f"{program} is not a command that can be run")
        if not faults:
            parser.error("--without removes all kinds of faults; keep at least one kind")
        if given.duration > _LONGEST:
            parser.error(
                f"--for must be at most {_LONGEST / 3600:.0f}h: the whole history is in memory"
            )
        return cls(
            settings=Settings(
                seed=given.seed if given.seed is not None else SystemRandom().randrange(2**32),
                seconds=given.duration,
                faults=faults,
                rounds=given.rounds,
                longest=given.longest,
                quiet=given.quiet,
                pause=given.pause,
                machines=given.machines,
                replicas=given.replicas,
                keyhouse=given.keyhouse,
                upgrade_to=given.upgrade_to,
                adopts_root=given.adopt_root,
                logs=given.logs,
            ),
            json=given.json,
            history=given.history,
            findings=given.findings,
            plant=given.plant,
            check=tuple(given.check),
            second_opinion=given.second_opinion,
            shows_list=given.list,
        )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="scripts/chaos",
        description="Run replicas on a PostgreSQL database under faults, and judge all answers;"
        " exit 1 at a violation.",
    )
    _add_run(parser.add_argument)
    _add_judge(parser.add_argument)
    return parser


def _add_run(add: Callable[..., object]) -> None:
    add("--list", action="store_true", help="list faults and plants, and end")
    add(
        "--for", dest="duration", type=duration, default=_USUAL, metavar="TIME",
        help="time in which faults begin: 90s, 20m, 1h; default: 2m",
    )  # fmt: skip
    add("--rounds", type=int, metavar="N", help="end after N rounds of faults")
    add("--seed", type=int, metavar="N", help="seed of the faults; default: random")
    add(
        "--faults", type=_faults, default=DRAWN, metavar="LIST",
        help="kinds of faults, separated by commas; default: all",
    )  # fmt: skip
    add("--without", type=_faults, default=(), metavar="LIST", help="excluded kinds of faults")
    add(
        "--longest", type=duration, default=25.0, metavar="TIME",
        help="longest time of a fault; default: 25s",
    )  # fmt: skip
    add(
        "--quiet", type=float, default=1.0, metavar="SECONDS",
        help="time between faults, after all replicas serve; default: 1",
    )  # fmt: skip
    add(
        "--pause", type=float, default=0.05, metavar="SECONDS",
        help="time between two requests of a probe; default: 0.05. With 0, the probes show rates",
    )  # fmt: skip
    add("--machines", type=int, default=3, metavar="N", help="simulated machines; default: 3")
    add(
        "--replicas", type=int, default=1, metavar="N",
        help="processes on each machine; default: 1",
    )  # fmt: skip
    add(
        "--keyhouse", default=KEYHOUSE, metavar="PATH",
        help="the command to run; default: the command of this checkout",
    )  # fmt: skip
    add(
        "--upgrade-to", default="", metavar="PATH",
        help="first restart each replica with this command, one replica at a time",
    )  # fmt: skip
    add(
        "--adopt-root", action="store_true",
        help="--upgrade-to adopts the root; for a --keyhouse without the line of a root",
    )  # fmt: skip


def _add_judge(add: Callable[..., object]) -> None:
    add("--json", type=Path, metavar="FILE", help="write the figures as JSON")
    add("--history", type=Path, metavar="FILE", help="write the history, also without a violation")
    add("--logs", type=Path, metavar="DIR", help="folder for the logs of the replicas")
    add(
        "--findings", type=Path, default=Path("build/findings"), metavar="DIR",
        help="folder for the history of a run with a violation; default: build/findings",
    )  # fmt: skip
    add(
        "--plant", choices=list(PLANTS), default="", metavar="KIND",
        help="plant a violation in the history: exit 1 shows that the judge finds the violation",
    )  # fmt: skip
    add(
        "--check", type=Path, nargs="+", default=[], metavar="FILE",
        help="judge the histories in files",
    )  # fmt: skip
    add(
        "--second-opinion", action="store_true",
        help="also judge with porcupine; needs Go and its module proxy",
    )  # fmt: skip


def _faults(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    wrong = [name for name in names if name not in KINDS]
    if wrong:
        raise argparse.ArgumentTypeError(f"unknown: {', '.join(wrong)}; --list prints all kinds")
    return names

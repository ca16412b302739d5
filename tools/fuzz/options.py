"""The command line of a campaign."""

import argparse
import re
from pathlib import Path
from random import SystemRandom
from typing import Final

import msgspec
from fuzz.targets.table import TARGETS
from fuzz.worker import Limits

__all__ = ["Options", "duration"]

_SECONDS: Final = {"s": 1, "m": 60, "h": 3600}
_LIMIT: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)([smh])")
_FOR_EVER: Final = 10 * 365 * 86_400.0
_USUAL: Final = 60.0


class Options(msgspec.Struct, frozen=True):
    """The settings of a campaign: each target with its limits, or files to replay."""

    targets: tuple[tuple[str, Limits], ...]
    replay: tuple[Path, ...]
    seed: int
    jobs: int
    findings: Path
    summary: Path | None
    shows_list: bool

    @classmethod
    def read(cls, arguments: list[str]) -> "Options":
        """Read the command line. Ends the process for invalid arguments."""
        parser = _parser()
        given = parser.parse_args(arguments)
        usual = _limits(given.duration, given.count)
        try:
            chosen = tuple(_chosen(text, usual) for text in given.targets or TARGETS)
        except ValueError as error:
            parser.error(str(error))
        if not 1 <= given.jobs <= 64:
            parser.error("--jobs must be 1 to 64")
        return cls(
            targets=chosen,
            replay=tuple(given.replay),
            seed=given.seed if given.seed is not None else SystemRandom().randrange(2**32),
            jobs=given.jobs,
            findings=given.findings,
            summary=given.summary,
            shows_list=given.list,
        )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="scripts/fuzz",
        description="Attack parts of Keyhouse with generated cases; exit 1 at the first finding.",
    )
    parser.add_argument(
        "targets",
        nargs="*",
        metavar="TARGET[=LIMIT]",
        help="default: all; LIMIT is a time (90s, 20m, 1h) or a number of cases",
    )
    parser.add_argument("--list", action="store_true", help="list the targets and end")
    parser.add_argument(
        "--for",
        dest="duration",
        type=duration,
        metavar="TIME",
        help="time for each target: 90s, 20m, 1h; default without --count: one minute",
    )
    parser.add_argument("--count", type=int, metavar="N", help="cases for each target")
    parser.add_argument(
        "--seed", type=int, metavar="N", help="seed of all random choices except keys"
    )
    parser.add_argument(
        "--jobs", type=int, default=1, metavar="N", help="processes for one target; default: 1"
    )
    parser.add_argument(
        "--findings",
        type=Path,
        default=Path("build/findings"),
        metavar="DIR",
        help="folder for the file of a finding; default: build/findings",
    )
    parser.add_argument("--summary", type=Path, metavar="FILE", help="write all counts as JSON")
    parser.add_argument(
        "--replay", type=Path, nargs="+", default=[], metavar="FILE", help="judge cases in files"
    )
    return parser


def duration(text: str) -> float:
    """Return the seconds of a time such as ``20m``. Raises ``argparse.ArgumentTypeError``."""
    found = _LIMIT.fullmatch(text)
    if found is None:
        raise argparse.ArgumentTypeError("a time is a number with s, m or h, such as 20m")
    return float(found[1]) * _SECONDS[found[2]]


def _limits(seconds: float | None, count: int | None) -> Limits:
    if seconds is None:
        seconds = _USUAL if count is None else _FOR_EVER
    return Limits(seconds, count)


def _chosen(text: str, usual: Limits) -> tuple[str, Limits]:
    """Return a target and its limits. Raises ``ValueError`` with a text for people."""
    name, given, limit = text.partition("=")
    if name not in TARGETS:
        raise ValueError(f"unknown target {name}; the targets are {', '.join(TARGETS)}")
    if not given:
        return name, usual
    if limit.isdecimal():
        return name, Limits(_FOR_EVER, int(limit))
    try:
        return name, Limits(duration(limit))
    except argparse.ArgumentTypeError as error:
        raise ValueError(f"{text}: {error}") from None

"""Run a campaign: ``scripts/fuzz``. ``fuzz/README.md`` describes campaigns."""

import signal
import sys
from pathlib import Path
from random import Random
from typing import Final, NoReturn

import msgspec
from fuzz.campaign import Attack, Run, run
from fuzz.findings import read_finding, write_finding
from fuzz.options import Options
from fuzz.target import Target
from fuzz.targets.table import TARGETS, attack_on
from fuzz.worker import Limits

__all__ = ["main"]

_TERMINATED: Final = 143
_SHOWN: Final = 12  # kinds of outcomes


class Summary(msgspec.Struct):
    """The content of the file ``--summary``. The campaign writes the file after each target."""

    seed: int
    cases: int
    runs: list[Run]
    finding: str = ""  # path of the file with the finding; empty: no finding


def main(arguments: list[str]) -> int:
    """Run the command; return 0, or 1 for a finding."""
    signal.signal(signal.SIGTERM, _terminated)
    options = Options.read(arguments)
    if options.shows_list:
        print("\n".join(f"{name:12} {kind.about}" for name, kind in TARGETS.items()))
        return 0
    if options.replay:
        return max(_replayed(path) for path in options.replay)
    return _campaign(options)


def _campaign(options: Options) -> int:
    print(f"seed {options.seed}", flush=True)
    summary = Summary(options.seed, 0, [])
    for name, limits in options.targets:
        done = run(
            attack_on(TARGETS[name]), limits, seed=options.seed, jobs=options.jobs, tell=_tell
        )
        summary.runs.append(done)
        summary.cases += done.cases
        if done.found is not None:
            summary.finding = str(write_finding(options.findings, done.found))
        if options.summary is not None:
            options.summary.write_bytes(msgspec.json.format(msgspec.json.encode(summary)) + b"\n")
        print(_described(done), flush=True)
        if done.found is not None:
            print(f"FOUND, written to {summary.finding}\n{done.found.what}", flush=True)
            return 1
    print(f"{summary.cases:,} cases, nothing found", flush=True)
    return 0


def _described(done: Run) -> str:
    """Return the result of one target as text."""
    rate = done.cases / done.seconds if done.seconds else 0.0
    lines = [f"{done.target}: {done.cases:,} cases in {done.seconds:,.0f} s, {rate:,.0f} a second"]
    ordered = sorted(done.outcomes.items(), key=lambda each: -each[1])
    lines += [f"  {count:>12,}  {outcome}" for outcome, count in ordered[:_SHOWN]]
    if rest := ordered[_SHOWN:]:
        lines.append(f"  {sum(count for _, count in rest):>12,}  in {len(rest)} further outcomes")
    return "\n".join(lines)


def _tell(present: Run) -> None:
    print(f"... {present.target}: {present.cases:,} cases, {present.seconds:,.0f} s", flush=True)


class _Replay(Target):
    """Draws the case of a file."""

    def __init__(self, target: Target, case: bytes) -> None:
        self._target = target
        self._case = case

    def draw(self, chance: Random) -> bytes:
        """Return the case in the file."""
        del chance
        return self._case

    def judge(self, case: bytes) -> str:
        """Judge the case with the target."""
        return self._target.judge(case)

    def close(self) -> None:
        """Close the target."""
        self._target.close()


def _replayed(path: Path) -> int:
    try:
        written = read_finding(path)
        kind = TARGETS[written.target]
    except (OSError, KeyError, msgspec.MsgspecError) as error:
        sys.exit(f"error: {path} does not contain a case: {error}")
    attack = Attack(kind.name, lambda: _Replay(kind(), written.case), kind.patience)
    done = run(attack, Limits(3600.0, 1), seed=0)
    if done.found is not None:
        print(f"{path}: FOUND\n{done.found.what}")
        return 1
    print(f"{path}: {next(iter(done.outcomes))}")
    return 0


def _terminated(_signal: int, _frame: object) -> NoReturn:
    sys.exit(_TERMINATED)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

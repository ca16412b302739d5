"""Run replicas under faults: ``scripts/chaos``. ``fuzz/README.md`` describes the runs."""

import signal
import sys
import traceback
from collections import Counter
from pathlib import Path
from typing import Any, Final, NoReturn

import msgspec
import pytest
from fuzz.chaos.availability import rows, table
from fuzz.chaos.campaign import Campaign
from fuzz.chaos.check import Violation, calls_of, kinds_of, violations
from fuzz.chaos.faults import KINDS
from fuzz.chaos.history import History, read_history
from fuzz.chaos.options import Options
from fuzz.chaos.plants import PLANTS, NoPlaceError, planted
from support.replicas.porcupine import porcupine_built

__all__ = ["main"]

_VIOLATION: Final = 1
_TROUBLE: Final = 2
_SHOWN: Final = 5  # violations


def main(arguments: list[str]) -> int:
    """Run the command; return 0, 1 for a violation, or 2 if it could not run or read."""
    for ending in (signal.SIGTERM, signal.SIGINT):
        signal.signal(ending, _terminated)
    options = Options.read(arguments)
    if options.shows_list:
        print("\n".join(f"{name:16} {kind.about}" for name, kind in KINDS.items()))
        print("\nto plant: " + ", ".join(PLANTS))
        return 0
    if options.check:
        return max(_checked(path, options) for path in options.check)
    return _run(options)


def _run(options: Options) -> int:
    _tell(f"seed {options.settings.seed}")
    campaign = Campaign(options.settings, _tell)
    path = options.findings / f"chaos-{options.settings.seed}.json"
    try:
        history = campaign.run()
    except pytest.skip.Exception as skipped:
        return _trouble(str(skipped.msg))
    except Exception:  # noqa: BLE001 the history of a failed run may contain a violation
        traceback.print_exc()
        campaign.history.write(path)
        return _trouble(f"the run failed; its history until then is in {path}")
    if options.history is not None:
        history.write(options.history)
    code = _judged(history, options)
    if code == _VIOLATION:
        history.write(path)
        print(f"the history is in {path}; scripts/chaos --check {path} judges it again")
    return code


def _checked(path: Path, options: Options) -> int:
    try:
        history = read_history(path)
    except (OSError, msgspec.MsgspecError) as error:
        return _trouble(f"{path} is not a history: {error}")
    print(f"{path}:")
    return _judged(history, options)


def _judged(history: History, options: Options) -> int:
    """Judge a history; print and write the results."""
    if options.plant:
        try:
            history = planted(history, options.plant)
        except NoPlaceError as error:
            return _trouble(str(error))
    found = violations(history)
    print(f"\n{table(history)}\n\n{_summary(history)}")
    if options.second_opinion:
        print(f"porcupine: {_second_opinion(history)}")
    if options.json is not None:
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(_figures(history, found))))
    for violation in found[:_SHOWN]:
        print(f"VIOLATION, {violation.kind}: {violation.text}")
    print(f"{len(found)} violations" if found else "no violation", flush=True)
    return _VIOLATION if found else 0


def _summary(history: History) -> str:
    counts = Counter(
        f"{record.what} {record.key.partition(' ')[0]}, {record.outcome}"
        for record in history.records
    )
    counted = "; ".join(f"{count:,} {what}" for what, count in sorted(counts.items()))
    statuses = Counter(record.status for record in history.records)
    exits = ", ".join(f"{count} with {code}" for code, count in sorted(history.exits.items()))
    places = len({record.place for record in history.records if record.place})
    heads = len({record.head for record in history.records if record.head})
    return (
        f"seed {history.seed}, {history.seconds:.0f} s, machines: {history.machines},"
        f" processes on each: {history.replicas}, load average {history.load}\n"
        f"{len(history.records):,} requests: {counted}\n"
        f"{places:,} places, {heads:,} log heads,"
        f" {history.logs[0].lines if history.logs else 0:,} lines of the update log\n"
        f"statuses: {dict(sorted(statuses.items()))}\n"
        f"ends of replicas: {exits or 'none'}"
    )


def _second_opinion(history: History) -> str:
    try:
        with porcupine_built() as porcupine:
            opinions = porcupine.opinion(calls_of(history), kinds_of(history))
    except pytest.skip.Exception as skipped:
        return f"not available: {skipped.msg}"
    illegal = [key for key, opinion in opinions.items() if opinion == "Illegal"]
    return f"{dict(Counter(opinions.values()))}" + (f", illegal: {illegal}" if illegal else "")


def _figures(history: History, found: list[Violation]) -> dict[str, Any]:
    return {
        "seed": history.seed,
        "seconds": history.seconds,
        "load": history.load,
        "requests": len(history.records),
        "exits": history.exits,
        "violations": [violation._asdict() for violation in found],
        "faults": {row.kind: [each._asdict() for each in row.gaps] for row in rows(history)},
    }


def _tell(text: str) -> None:
    print(text, flush=True)


def _trouble(text: str) -> int:
    print(f"error: {text}", file=sys.stderr)
    return _TROUBLE


def _terminated(number: int, _frame: object) -> NoReturn:
    """Exit with 128 + ``number``. The exception ends all processes of the run."""
    sys.exit(128 + number)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Runs the tests of a module against each of its mutants, and tells which ones no test noticed.

Nothing on disk is changed: a child process, forked from one that has the libraries loaded, reads
the mutant in place of the module and runs the tests. What was found out is kept in
``build/mutation``, so that a run that was ended continues where it was.
"""

import argparse
import hashlib
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

import pytest
from hypothesis import Phase, settings
from mutation.loading import Mutated, load_others, loaded
from mutation.operators import Mutant, mutants
from mutation.targets import TARGETS

__all__ = ["main"]

_ROOT: Final = Path(__file__).resolve().parents[2]
_KEPT: Final = _ROOT / "build" / "mutation"
_EQUIVALENT: Final = Path(__file__).with_name("equivalent.txt")
_UNITS: Final = {"s": 1, "m": 60, "h": 3600}
_FORK: Final = get_context("fork")
_LEAST_SECONDS: Final = 20.0  # that the tests of a mutant may take
_SLOWER: Final = 5  # than without a mutant
_PLUGINS: Final = ("pytest_asyncio.plugin", "pytest_timeout", "_hypothesis_pytestplugin")
_OPTIONS: Final = (
    "-q",
    "-x",
    "--assert=plain",
    "--hypothesis-seed=0",
    "--hypothesis-profile=mutants",
    "-pno:cacheprovider",
    *(f"-p{each}" for each in _PLUGINS),
)
settings.register_profile(
    "mutants", deadline=None, database=None, phases=[Phase.explicit, Phase.generate]
)


def main() -> int:
    """Return 0 if every mutant was killed or is accepted as equivalent, 1 if not."""
    asked = _arguments()
    if asked.list:
        print("\n".join(TARGETS))
        return 0
    until = time.monotonic() + asked.limit
    survivors = 0
    for target in asked.targets or TARGETS:
        module = _Module(target)
        complete = module.run(until, survivors_only=asked.survivors)
        survivors += module.report(complete=complete)
    return 1 if survivors else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/mutate", description=main.__doc__)
    parser.add_argument("targets", nargs="*", metavar="MODULE", help="see --list; default: all")
    parser.add_argument(
        "--for", dest="limit", type=_seconds, default=float("inf"), help="such as 10m; then stop"
    )
    parser.add_argument(
        "--survivors", action="store_true", help="keep what was killed, though tests have changed"
    )
    parser.add_argument("--list", action="store_true", help="the modules")
    found = parser.parse_args()
    if unknown := set(found.targets) - set(TARGETS):
        parser.error(f"no such module: {', '.join(sorted(unknown))}")
    return found


def _seconds(text: str) -> float:
    if not re.fullmatch(r"\d+[smh]", text):
        raise argparse.ArgumentTypeError("give a number and s, m or h: 10m")
    return float(int(text[:-1]) * _UNITS[text[-1]])


class _Order:
    """Puts the tests first that found the mutants before, and those of properties last."""

    def __init__(self, first: list[str]) -> None:
        self._first = first
        self.failed = ""

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items.sort(key=self._rank)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed = report.nodeid

    def _rank(self, item: pytest.Item) -> int:
        if item.nodeid in self._first:
            return self._first.index(item.nodeid)
        slow = item.get_closest_marker("hypothesis") is not None
        return len(self._first) + slow


class _Module:
    """A module under test: its mutants, and what became of each."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._name = f"keyhouse.{target.replace('/', '.')}"
        self._path = _ROOT / "src" / "keyhouse" / f"{target}.py"
        self._tests = [f"tests/{name}.py" for name in TARGETS[target]]
        self._digest = _digest(*((_ROOT / name).read_text() for name in self._tests))
        self._mutants = list(mutants(self._path.read_text()))
        self._file = _KEPT / f"{target.replace('/', '.')}.json"
        kept = json.loads(self._file.read_text()) if self._file.exists() else {}
        self._kept: dict[str, tuple[str, str]] = {key: (of, how) for key, (of, how) in kept.items()}
        self._killers: list[str] = []  # tests, the one that failed last first

    def run(self, until: float, *, survivors_only: bool) -> bool:
        """Return whether all mutants were tried before ``until``."""
        left = [each for each in self._mutants if self._is_open(each, survivors_only)]
        if not left:
            return True
        accepted = _equivalent(self._target)  # every test runs on each of these: the last ones
        left.sort(key=lambda each: each.diff in accepted)
        seconds = self._baseline()
        for at, mutant in enumerate(left, 1):
            if time.monotonic() > until:
                break
            outcome = self._outcome(mutant, max(_LEAST_SECONDS, seconds * _SLOWER))
            self._kept[_digest(mutant.text)] = (self._digest, outcome)
            self._keep()
            if sys.stderr.isatty():
                print(f"\r{self._target} {at}/{len(left)} ", end="", file=sys.stderr)
        try:
            self._baseline()
        except SystemExit:  # it was no mutant that failed them: nothing is known
            self._file.unlink(missing_ok=True)
            raise
        return not any(self._is_open(each, survivors_only) for each in left)

    def report(self, *, complete: bool) -> int:
        """Print what became of the mutants, and return how many survived unaccepted."""
        outcomes = [
            self._kept.get(_digest(each.text), ("", "untried"))[1] for each in self._mutants
        ]
        accepted = _equivalent(self._target)
        survived = [
            mutant
            for mutant, outcome in zip(self._mutants, outcomes, strict=True)
            if outcome == "survived"
        ]
        new = [each for each in survived if each.diff not in accepted]
        print(
            f"{self._target}: {len(self._mutants)} mutants, {outcomes.count('killed')} killed,"
            f" {len(survived) - len(new)} equivalent, {len(new)} survived"
            + ("" if complete else f", {outcomes.count('untried')} not tried")
        )
        for mutant in new:
            print(f"\nsrc/keyhouse/{self._target}.py:{mutant.place}\n{mutant.diff}")
        for diff in accepted - {each.diff for each in survived} if complete else ():
            print(f"\nno longer a survivor, remove it from {_EQUIVALENT.name}:\n{diff}")
        sys.stdout.flush()
        return len(new)

    def _is_open(self, mutant: Mutant, survivors_only: bool) -> bool:  # noqa: FBT001 the option
        tests, outcome = self._kept.get(_digest(mutant.text), ("", ""))
        known = tests == self._digest or (survivors_only and outcome == "killed")
        return not (outcome and known)

    def _keep(self) -> None:
        _KEPT.mkdir(parents=True, exist_ok=True)
        new = self._file.with_suffix(".new")
        new.write_text(json.dumps(self._kept, indent=0))
        new.replace(self._file)

    def _baseline(self) -> float:
        """Load what the tests need; return the seconds that these take without a mutant."""
        began = 0.0
        for _ in range(2):  # the second time with most modules loaded
            found, tell = _FORK.Pipe(duplex=False)
            began = time.monotonic()
            child = _FORK.Process(target=_test, args=(self._tests, None, [], tell))
            child.start()
            tell.close()
            _, files = found.recv()
            child.join()
            if child.exitcode:
                raise SystemExit(f"the tests of {self._target} fail without any mutant")
            load_others(self._name, files)
        return time.monotonic() - began

    def _outcome(self, mutant: Mutant, seconds: float) -> str:
        mutated = Mutated(self._name, str(self._path), mutant.text)
        found, tell = _FORK.Pipe(duplex=False)
        child = _FORK.Process(target=_test, args=(self._tests, mutated, self._killers, tell))
        child.start()
        tell.close()
        if found.poll(seconds):
            with suppress(EOFError):
                failed, _ = found.recv()
                self._killers = [failed, *(each for each in self._killers if each != failed)]
        else:  # it never ends: that would be noticed
            child.kill()
        child.join()
        return "killed" if child.exitcode else "survived"


def _test(tests: list[str], mutated: Mutated | None, first: list[str], tell: Connection) -> None:
    """Run the tests in this process, which ends with 0 if they pass; tell what was found."""
    sink = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(sink, stream)
    if mutated is not None:
        sys.meta_path.insert(0, mutated)  # type: ignore[arg-type]  # typeshed wants more than Python
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    order = _Order(first)
    with tempfile.TemporaryDirectory() as scratch:
        code = pytest.main([*_OPTIONS, f"--basetemp={scratch}/t", *tests], [order])
    tell.send((order.failed, loaded() if mutated is None else {}))
    os._exit(code)


def _equivalent(target: str) -> set[str]:
    """Return the diffs of mutants that are accepted, because nothing can tell them apart."""
    return {diff for of, diff in _entries() if of == target}


def _entries() -> Iterator[tuple[str, str]]:
    for block in _EQUIVALENT.read_text().split("\n\n"):
        lines = [line for line in block.splitlines() if not line.startswith("#")]
        if lines:
            yield lines[0], "".join(f"{line}\n" for line in lines[1:])


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]


if __name__ == "__main__":
    sys.exit(main())

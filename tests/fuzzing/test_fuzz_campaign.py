"""The campaign goes red: at a pass, an exception, a crash of the process, a hang."""

import faulthandler
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from random import Random
from typing import NoReturn

import msgspec
import pytest
from fuzz.campaign import Attack, Run, run
from fuzz.findings import CORPUS, read_finding, write_finding
from fuzz.forgery.case import ForgedCase
from fuzz.options import Options
from fuzz.target import FindingError, Target
from fuzz.targets.attestation import QuoteTarget
from fuzz.worker import Limits

from keyhouse.attestation import Collateral, Verdict, Verifier
from keyhouse.base.errors import BrokenError

ROOT = Path(__file__).parents[2]
LIMITS = Limits(seconds=60.0, count=3000)


class Planted(Target):
    """Draws numbers and does with them what it is told."""

    name = "planted"
    about = "a defect"

    def __init__(self, judge: Callable[[bytes], str]) -> None:
        self._judge = judge

    def draw(self, chance: Random) -> bytes:
        return bytes([chance.randrange(256)])

    def judge(self, case: bytes) -> str:
        return self._judge(case)


def planted(judge: Callable[[bytes], str], limits: Limits = LIMITS, jobs: int = 1) -> Run:
    return run(Attack("planted", lambda: Planted(judge), 1.0), limits, seed=1, jobs=jobs)


def without_checking(root: bytes, quote: bytes, collateral: Collateral, at: datetime) -> Verdict:
    """Accept whatever has the form of a quote: the first verdict that there was, for all."""
    genuine = read_finding(next(CORPUS.glob("quotes-genuine*.json")))
    case = msgspec.msgpack.decode(genuine.case, type=ForgedCase)
    del root, quote, collateral, at
    return Verifier(case.root).verify(case.quote, case.collateral, datetime.fromisoformat(AT))


AT = "2026-03-01T12:00:00+00:00"


def test_verifier_that_accepts_a_forged_quote_is_found() -> None:
    attack = Attack("quotes", lambda: QuoteTarget(without_checking), QuoteTarget.patience)
    done = run(attack, LIMITS, seed=1)
    assert done.found is not None
    assert done.found.target == "quotes"
    assert done.cases < 3000


def test_reader_that_lets_an_exception_out_is_found_with_its_case() -> None:
    def judge(case: bytes) -> str:
        if case == b"\x07":
            raise IndexError("out of range")
        return "read"

    done = planted(judge)
    assert done.found is not None
    assert done.found.case == b"\x07"
    assert "IndexError" in done.found.what
    assert done.outcomes["read"] == done.cases > 0


def test_refusal_of_another_kind_is_found() -> None:
    def judge(_case: bytes) -> NoReturn:
        raise BrokenError("not a refusal of the caller")

    assert "Broken" in str(planted(judge).found)


def test_case_that_aborts_the_process_is_found() -> None:
    def judge(case: bytes) -> str:
        if case == b"\x07":
            faulthandler.disable()
            os.abort()
        return "read"

    done = planted(judge)
    assert done.found is not None
    assert (done.found.case, "SIGABRT" in done.found.what) == (b"\x07", True)


def test_case_that_never_ends_is_found() -> None:
    def judge(case: bytes) -> str:
        while case == b"\x07":
            pass
        return "read"

    done = planted(judge)
    assert done.found is not None
    assert done.found.case == b"\x07"
    assert "hang" in done.found.what


def test_nothing_is_found_where_nothing_is_wrong() -> None:
    done = planted(lambda _case: "fine", Limits(seconds=60.0, count=500), jobs=2)
    assert (done.found, done.outcomes) == (None, {"fine": 500})


def test_run_ends_at_its_time() -> None:
    done = planted(lambda _case: "fine", Limits(seconds=0.2))
    assert done.found is None
    assert done.cases > 0


def test_finding_is_written_so_that_it_can_be_replayed(tmp_path: Path) -> None:
    def judge(_case: bytes) -> NoReturn:
        raise FindingError("it was accepted")

    found = planted(judge).found
    assert found is not None
    assert read_finding(write_finding(tmp_path / "new", found)) == found


def fuzz(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "fuzz.run", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": "tools:tests"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_command_counts_and_writes_a_summary(tmp_path: Path) -> None:
    summary = tmp_path / "summary.json"
    done = fuzz("json=200", "templates=100", "--seed", "7", "--summary", str(summary))
    assert done.returncode == 0, done.stderr
    found = msgspec.json.decode(summary.read_bytes())
    assert (found["seed"], found["cases"], found["finding"]) == (7, 300, "")
    assert [each["target"] for each in found["runs"]] == ["json", "templates"]


def test_command_is_red_where_a_case_is_a_finding(tmp_path: Path) -> None:
    kept = read_finding(next(CORPUS.glob("quotes-genuine*.json")))
    case = msgspec.msgpack.decode(kept.case, type=ForgedCase)
    nobody = msgspec.structs.replace(case, signed=frozenset())  # then it must not be accepted
    found = msgspec.structs.replace(kept, case=msgspec.msgpack.encode(nobody))
    done = fuzz("--replay", str(write_finding(tmp_path, found)))
    assert done.returncode == 1
    assert "nobody rightful signed" in done.stdout


@pytest.mark.parametrize("arguments", [("nothing",), ("json=1d",), ("--for", "1"), ("--jobs", "0")])
def test_command_that_cannot_be_read_is_an_error(arguments: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit) as end:
        Options.read([*arguments])
    assert end.value.code == 2

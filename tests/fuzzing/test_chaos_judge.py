"""The judge of chaos runs: a true history passes, and each planted violation is found."""

from pathlib import Path
from typing import Any

import pytest
from fuzz.chaos.availability import rows, table
from fuzz.chaos.check import violations
from fuzz.chaos.faults import KINDS, strikes
from fuzz.chaos.history import Fault, History, Log, Outcome, Record, read_history
from fuzz.chaos.options import Options
from fuzz.chaos.plants import PLANTS, planted
from fuzz.chaos.run import main
from fuzz.chaos.strike import STRIKES

FIRST, SECOND = "aa" * 32, "bb" * 32
LIMIT = 2

FOUND = {
    "stale-read": {"secret"},
    "lost-write": {"secret"},
    "failed-write": {"refused", "secret", "lines"},
    "counter": {"counter"},
    "fork": {"fork"},
    "stale-place": {"place"},
    "log": {"log"},
    "stale-log": {"log"},
    "other-log": {"log"},
    "lines": {"lines"},
    "limit": {"limit"},
    "version": {"version"},
    "manifest": {"manifest"},
}
"""Kinds of violations that the judge reports for each plant, of which it has to report one."""


class Telling:
    """Writes down requests, one second each, of a coordinator that does one thing at a time."""

    def __init__(self) -> None:
        self.history = History(seed=1, machines=2, replicas=1, limit=LIMIT, manifest=FIRST)
        self.time = self.sequence = 0

    def add(self, key: str, what: str, argument: Any = None, **more: Any) -> Record:
        """Add a request; one that changes something leads to the next place."""
        self.time += 1
        fields = {"outcome": Outcome.DONE, "began": float(self.time), "ended": self.time + 0.5}
        if what != "read" and more.get("outcome", Outcome.DONE) is Outcome.DONE:
            self.sequence += 1
        if what != "take":
            fields |= {"place": f"1.{self.sequence}.{self.sequence:016x}"}
            fields |= {"head": f"{self.sequence + 1}.{self.sequence:016x}"}
        client = f"{what} {self.time % 2}" if key == "secret s0" else "other"
        fields |= {"client": client, "replica": self.time % 2, "key": key, "what": what}
        record = Record(**{**fields, "argument": argument, **more})
        self.history.records.append(record)
        return record


def true_history() -> History:
    """Return a history of all kinds of requests."""
    telling = Telling()
    add = telling.add
    for number in range(6):
        add("secret s0", "write", f"w{number}")
        add("secret s0", "read", result=f"w{number}")
        add("counter x", "raise", 2 * number + 1, result=max(2 * number - 1, 0))
    add("secret s0", "write", "never", outcome=Outcome.REFUSED, status=503, place="", head="")
    add("secret s0", "write", "open", outcome=Outcome.UNKNOWN, place="", head="")
    add("secret s0", "write", "gone", outcome=Outcome.UNKNOWN, place="", head="")
    for taken in (True, True, False):
        add("limit 0", "take", result=taken)
    add("manifest", "read", result=FIRST)
    add("version", "write", 4)
    add("version", "write", 5, outcome=Outcome.REFUSED)
    add("manifest", "write", SECOND)
    add("manifest", "read", result=SECOND)
    add("secret s0", "read", result="open")
    history = telling.history
    history.seconds = telling.time + 1.0
    history.faults.append(Fault("kill", 0, 2.2, 4.2))
    logs = (Log(each, 9, "c" * 64, {"s0": 7}, (4,), (SECOND,)) for each in range(2))
    history.logs += logs
    return history


def kinds(history: History) -> set[str]:
    return {each.kind for each in violations(history)}


def test_a_true_history_passes() -> None:
    assert violations(true_history()) == []


def test_each_plant_is_listed_here() -> None:
    assert FOUND.keys() == PLANTS.keys()


@pytest.mark.parametrize("kind", PLANTS)
def test_a_planted_violation_is_found(kind: str) -> None:
    assert kinds(planted(true_history(), kind)) & FOUND[kind]


def test_a_read_behind_a_write_at_the_same_time_is_right_before_and_after_it() -> None:
    history = true_history()
    telling = Telling()
    telling.history, telling.time = history, 100
    telling.sequence = 50
    telling.add("secret s1", "write", "w0")
    telling.add("secret s1", "write", "w1", ended=199.0)
    telling.add("secret s1", "read", result="w0")
    telling.add("secret s1", "read", result="w1")
    history.logs.clear()
    assert violations(history) == []
    telling.add("secret s1", "read", result="w0")
    assert kinds(history) == {"secret"}


def test_a_replica_that_never_serves_again_is_a_violation() -> None:
    history = true_history()
    history.away.append(1)
    assert kinds(history) == {"away"}


def test_more_lines_than_uploads_are_a_violation() -> None:
    history = true_history()
    history.logs = [Log(0, 9, "c" * 64, {"s0": 9}, (4,), (SECOND,))]
    assert kinds(history) == {"lines"}


def test_the_table_shows_the_longest_times_around_a_fault() -> None:
    history = true_history()
    history.faults.append(Fault("reset", 1, 6.2, 6.2))
    kill, reset = rows(history)
    assert (kill.kind, reset.kind) == ("kill", "reset")
    # Writes are acknowledged at 1.5 by replica 1 and at 4.5 by replica 0; reads at 2.5 and 5.5.
    (found,) = kill.gaps
    *seconds, _, _ = found
    assert seconds == pytest.approx([2.0, 3.0, 3.0, 4.7, 0.3])
    assert table(true_history()).splitlines()[-1].startswith("| kill | 1 | 2.0 / 2.0 | ")


def test_a_history_is_judged_again_from_its_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "new" / "history.json"
    true_history().write(path)
    assert read_history(path) == true_history()
    assert main(["--check", str(path)]) == 0
    assert "no violation" in capsys.readouterr().out
    figures = tmp_path / "figures.json"
    assert main(["--check", str(path), "--plant", "fork", "--json", str(figures)]) == 1
    assert "VIOLATION, fork" in capsys.readouterr().out
    assert b'"fork"' in figures.read_bytes()


def test_a_file_that_is_not_a_history_is_no_violation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "history.json"
    path.write_text("{}")
    assert main(["--check", str(path)]) == 2
    assert "is not a history" in capsys.readouterr().err


def test_a_seed_draws_the_same_faults_each_kind_first_once() -> None:
    def drawn(seed: int) -> list[Any]:
        found = strikes(seed, list(KINDS), 3, 12.0)
        return [next(found) for _ in range(3 * len(KINDS))]

    rounds = drawn(5)
    assert rounds == drawn(5) != drawn(6)
    assert {strike.kind for (strike,) in rounds[: len(KINDS)]} == KINDS.keys()
    pairs = [each for each in rounds if len(each) == 2]
    assert pairs
    assert {(KINDS[a.kind].at, KINDS[b.kind].at) for a, b in pairs} == {("machine", "database")}


def test_each_kind_of_fault_can_be_done() -> None:
    assert STRIKES.keys() == KINDS.keys()


def test_faults_are_chosen_or_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert Options.read(["--faults", "kill,reset"]).settings.faults == ("kill", "reset")
    left = Options.read(["--without", "kill"]).settings.faults
    assert set(left) == KINDS.keys() - {"kill", "upgrade", "hour"}  # of an upgrade
    with pytest.raises(SystemExit):
        Options.read(["--faults", "flood"])
    assert "unknown: flood" in capsys.readouterr().err


def test_a_command_that_is_missing_is_refused_before_anything_is_started(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        Options.read(["--keyhouse", str(tmp_path / "keyhouse")])
    assert "is not a command" in capsys.readouterr().err

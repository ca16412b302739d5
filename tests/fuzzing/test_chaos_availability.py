"""The table of a chaos run: gaps and shares of a history with known moments."""

from fuzz.chaos.availability import gaps, table
from fuzz.chaos.history import Fault, History, Outcome, Record


def _probes(what: str, replica: int, moments: list[float]) -> list[Record]:
    return [
        Record(f"{what} {replica}", replica, what, "secret", Outcome.DONE, moment - 0.01, moment)
        for moment in moments
    ]


def _history(kind: str) -> History:
    """Return a history with a fault of replica 0 from second 10 to 20, and another at 30.

    Replica 1 answers ten times per second, and during the first fault five times.
    """
    steady = [n / 10 for n in (*range(100), *range(100, 200, 2), *range(200, 400))]
    records = [
        *_probes("write", 0, [n / 10 for n in range(100)]),
        *_probes("write", 1, steady),
        *_probes("read", 1, steady),
    ]
    faults = [
        Fault(kind, 0, 0.0, 0.1),
        Fault(kind, 0, 10.0, 20.0),
        Fault(kind, 0, 30.0, 30.1),
    ]
    return History(seed=1, machines=2, replicas=1, seconds=40.0, records=records, faults=faults)


def test_share_compares_the_other_replicas_with_their_own_quiet_time() -> None:
    first, long, last = gaps(_history("stop"))
    assert long.writes_elsewhere is not None
    assert long.reads_elsewhere is not None
    assert 0.49 < long.writes_elsewhere < 0.52
    assert 0.49 < long.reads_elsewhere < 0.52
    assert first.writes_elsewhere is None  # shorter than a second
    assert last.writes_elsewhere is None
    assert "| 50 / 50 | 50 / 50 |" in table(_history("stop"))


def test_faults_of_the_database_have_no_share() -> None:
    assert {each.writes_elsewhere for each in gaps(_history("primary-stop"))} == {None}

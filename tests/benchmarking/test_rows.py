"""Figures beside what is wanted of them: medians, findings, and what the table shows."""

from pathlib import Path

import pytest
from benchmarks.processes import Processors
from benchmarks.rows import Figures, Row, at_least, at_most, table
from benchmarks.store.wanted import BARE, ONE, SQLITE, THREE, TWO, compared, uploads_compared
from benchmarks.surroundings import look_around


def _rows(alone: float, reads: float, gap: float) -> dict[str, Row]:
    values = {
        "commit, p50 µs": {BARE: 500.0},
        "round trip, p50 µs": {BARE: 200.0},
        "upload alone, p50 µs": {SQLITE: 400.0, ONE: alone},
        "upload, 8 clients, /s": {SQLITE: 5000.0, ONE: 4000.0, TWO: 2000.0},
        "upload, 8 clients, p99 µs": {TWO: 5000.0},
        "read alone, p50 µs": {SQLITE: 60.0, ONE: 460.0},
        "read, 64 clients, /s": {SQLITE: 10_000.0, ONE: reads},
        "replica lost: longest gap at the other, ms": {TWO: gap},
    }
    rows = [
        Row(what, {column: [1.0, value, 1e9] for column, value in columns.items()})
        for what, columns in values.items()
    ]
    return {row.what: row for row in compared(rows)}


@pytest.mark.parametrize(
    ("values", "met"),
    [((1500.0, 6000.0, 100.0), True), ((1501.0, 5999.0, 100.1), False)],
)
def test_a_figure_on_a_database_is_judged_by_what_the_database_takes_itself(
    values: tuple[float, float, float], *, met: bool
) -> None:
    rows = _rows(*values)
    word = "met" if met else "missed"
    assert rows["upload alone, p50 µs"].finding == f"{word}: at most 1,500 µs (a commit and 1 ms)"
    assert rows["read, 64 clients, /s"].finding.startswith(f"{word}: at least 6,000")
    assert rows["replica lost: longest gap at the other, ms"].finding.startswith(word)
    assert rows["read alone, p50 µs"].finding.startswith("met: at most 460 µs")
    first, second = rows["upload, 8 clients, /s"].finding.split("; ")
    assert first == "met: at least 3,000 with 1 replica"
    assert second == "missed: at least 2,400 with 2 replicas"
    assert not rows["commit, p50 µs"].finding


def test_with_a_standby_more_replicas_must_not_cost_writes() -> None:
    values = {ONE: [100.0], TWO: [80.0], THREE: [79.0]}
    names = ("8 clients, standby, /s", "32 clients, standby, /s", "8 clients, disk, /s")
    eight, many, disk = uploads_compared([Row(name, values) for name in names])
    assert eight.finding == "met: at least 80 with 2 replicas; missed: at least 80 with 3 replicas"
    assert many.finding.startswith("missed: at least 100 with 2 replicas")
    assert disk.finding == ""


def test_beside_a_figure_that_was_left_out_nothing_is_judged() -> None:
    alone = Row("upload alone, p50 µs", {SQLITE: [400.0]})
    reads = Row("read, 64 clients, /s", {SQLITE: [10_000.0], ONE: [6000.0]})
    first, second = compared([alone, reads])
    assert (first.finding, second.finding[:4]) == ("", "met:")


def test_the_table_has_medians_and_leaves_cells_without_a_figure_empty(tmp_path: Path) -> None:
    rows = [
        Row("start, ms", {"a": [3.0, 1.0, 20.0], "b": [0.1234]}, at_most(3, 20, "ms")),
        Row("answers, /s", {"b": [12_345.6]}, at_least(1, 2, "")),
    ]
    figures = Figures(look_around(tmp_path, Processors.available()), 2, 3, rows)
    *_, head, _, first, second = table(figures, ["a", "b"]).splitlines()
    assert head == "| | a | b | wanted |"
    assert first == "| start, ms | 3 | 0.123 | met: at most 20 ms |"
    assert second == "| answers, /s |  | 12,346 | missed: at least 2 |"

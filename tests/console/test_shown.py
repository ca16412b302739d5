"""What pages compute before a template: plots, folds, filtered graphs, and sentences."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, strategies as st
from support.samples.updates import together

from keyhouse.base.errors import InvalidError
from keyhouse.console.manifest_text import json_of, located
from keyhouse.console.page import _sentence
from keyhouse.console.pages.manifest import DiffLine, _folded
from keyhouse.console.pages.workloads import plot_of
from keyhouse.console.secret_access import Node, graph_of
from keyhouse.manifest import decode

NOW = datetime(2026, 11, 27, 12, 0, 30, tzinfo=UTC)


def times(*ago: timedelta) -> list[str]:
    return [(NOW - each).isoformat() for each in ago]


@pytest.mark.parametrize(
    ("span", "unit", "days"),
    [
        (timedelta(minutes=40), "minute", False),
        (timedelta(hours=3), "5 minutes", False),
        (timedelta(hours=11), "15 minutes", False),
        (timedelta(hours=40), "hour", False),
        (timedelta(days=10), "6 hours", True),
        (timedelta(days=40), "day", True),
        (timedelta(days=400), "week", True),
    ],
)
def test_a_plot_names_its_unit_and_ends_after_the_newest(
    span: timedelta, unit: str, *, days: bool
) -> None:
    plot = plot_of(times(span, timedelta()))
    assert plot is not None
    assert (plot.unit, plot.days) == (unit, days)
    assert len(plot.bars) == 48
    assert plot.times[0] == plot.bars[0].start
    assert plot.bars[-1].start <= NOW < plot.times[-1]
    assert plot.times[1] - plot.times[0] == plot.times[2] - plot.times[1]


@given(st.integers(1, 3000))
def test_the_vertical_axis_ends_at_a_round_number(count: int) -> None:
    plot = plot_of(times(*[timedelta()] * count))
    assert plot is not None
    assert plot.total == plot.highest == count
    assert plot.marks[0] >= count
    assert plot.marks[0] < 2 * count + 1
    assert plot.marks == ((1, 0) if count == 1 else (plot.marks[0], plot.marks[0] // 2, 0))
    assert max(bar.height for bar in plot.bars) <= 100


def test_without_activations_there_is_no_plot() -> None:
    assert plot_of([]) is None


@given(st.lists(st.sampled_from(["same", "changed", "added", "removed"]), max_size=60))
def test_folds_lose_no_line_and_hide_no_change(kinds: list[str]) -> None:
    lines = [DiffLine(kind, str(at), str(at), at, at) for at, kind in enumerate(kinds)]
    parts = _folded(lines)
    assert [line for part in parts for line in part.lines] == lines
    for part in parts:
        if part.folded:
            assert {line.kind for line in part.lines} == {"same"}
    shown = {line.old_number for part in parts if not part.folded for line in part.lines}
    for at, kind in enumerate(kinds):
        if kind != "same":
            assert {*range(max(0, at - 3), min(len(kinds), at + 4))} <= shown


def test_a_filter_shows_the_paths_through_every_found_name() -> None:
    manifest = decode(together())
    whole = graph_of(manifest, None, "", 24)
    found = graph_of(manifest, None, "NOTE", 24)
    one = graph_of(manifest, Node("Secrets", "note"), "", 24)
    assert set(found.nodes) < set(whole.nodes)
    assert Node("Secrets", "note") in found.nodes
    assert set(one.arrows) <= set(found.arrows) <= set(whole.arrows)
    assert graph_of(manifest, None, "no such name", 24).nodes == ()
    assert all(each.left in found.nodes and each.right in found.nodes for each in found.arrows)


def test_found_names_come_first_in_a_full_column() -> None:
    def many(content: dict[str, dict[str, object]]) -> None:
        for number in range(300):
            content["Secrets"][f"secret{number:03}"] = {"Type": "plain", "UserDefined": True}

    manifest = decode(together(many))
    found = graph_of(manifest, None, "secret29", 24)
    assert sum(each.section == "Secrets" for each in found.nodes) == 10
    assert graph_of(manifest, None, "secret", 24).left_out == {"Secrets": 276}


@pytest.mark.parametrize(
    ("message", "sentence"),
    [
        ("the plan has changed", "The plan has changed."),
        ("use the version, then go on!", "Use the version, then go on!"),
        ('"x" is unknown', '"x" is unknown.'),
        ("keyhouse manifest get shows it", "keyhouse manifest get shows it."),
        ("Packages.app is missing", "Packages.app is missing."),
        ("", ""),
    ],
)
def test_messages_become_sentences(message: str, sentence: str) -> None:
    assert _sentence(message) == sentence


@pytest.mark.parametrize(
    ("text", "line"),
    [("Packages:\r\n  app:\r\n   - x: [", 3), ('{\r\n"Packages": {', 2), ("\tx", 1)],
)
def test_problems_have_lines_in_texts_of_browsers(text: str, line: int) -> None:
    with pytest.raises(InvalidError) as refused:
        json_of(text)
    assert [each.line for each in located(text, refused.value.problems)] == [line]

"""Dashboard and alerts name only what a coordinator exports, with the labels that it has."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from keyhouse.server.metrics.names import METRICS

_DEPLOY: Final = Path(__file__).parent.parent.parent / "deploy"
_ALERTS: Final = _DEPLOY / "prometheus" / "alerts.yaml"
_DASHBOARD: Final = _DEPLOY / "grafana" / "keyhouse.json"
_PROCESS: Final = {  # those of the Prometheus client, which it names by itself
    "process_cpu_seconds_total",
    "process_resident_memory_bytes",
    "process_start_time_seconds",
}
_NAME: Final = re.compile(r"\b(?:keyhouse|coordinator|server|grpc|process|python)_\w+")
_MATCHED: Final = re.compile(r"(\w+)(?:=~|!~|!=|=)\"")
_BY: Final = re.compile(r"\bby \(([^)]*)\)")
_SHOWN: Final = re.compile(r"\{\{ ?(?:\$labels\.)?(\w+) ?\}\}")
_ADDED: Final = {"job", "instance", "le"}  # by the server that asks, and of histograms


def exported(name: str) -> str:
    """Return the metric of the reference that a sample called ``name`` belongs to."""
    if name in METRICS:
        return name
    family = re.sub(r"_(?:bucket|sum|count)$", "", name)
    return family if family in METRICS and METRICS[family].kind == "histogram" else ""


def rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load(_ALERTS.read_text(encoding="utf-8"))["groups"]
    return list(group["rules"])


def panels() -> list[dict[str, Any]]:
    return list(json.loads(_DASHBOARD.read_text(encoding="utf-8"))["panels"])


def expressions() -> Iterator[tuple[str, str]]:
    """Give each expression with the text that shows its labels."""
    for rule in rules():
        yield rule["expr"], rule["annotations"]["summary"]
    for panel in panels():
        for target in panel.get("targets", ()):
            yield target["expr"], target["legendFormat"]


@pytest.mark.parametrize(("expression", "shown"), list(expressions()))
def test_every_metric_and_label_is_one_that_a_coordinator_exports(
    expression: str, shown: str
) -> None:
    found = set(_NAME.findall(_BY.sub("", expression)))
    assert found
    ours = found - _PROCESS
    assert all(exported(name) for name in ours), ours
    labels = {label for name in ours for label in METRICS[exported(name)].labels} | _ADDED
    named = {each.strip() for group in _BY.findall(expression) for each in group.split(",")}
    assert named | set(_MATCHED.findall(expression)) | set(_SHOWN.findall(shown)) <= labels
    assert expression.count("(") == expression.count(")")


def test_rules_are_whole_and_named_once() -> None:
    names = [rule["alert"] for rule in rules()]
    assert len(set(names)) == len(names)
    for rule in rules():
        assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
        assert rule["labels"]["severity"] in {"warning", "critical"}
    page = (_DEPLOY.parent / "docs/how-to/monitor.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^\| `(Keyhouse\w+)` \|", page, re.MULTILINE)) == sorted(names)


def test_panels_of_the_dashboard_have_places_of_their_own() -> None:
    assert len({panel["id"] for panel in panels()}) == len(panels())
    taken: set[tuple[int, int]] = set()
    for panel in panels():
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not taken & cells
        assert place["x"] + place["w"] <= 24
        taken |= cells


def test_the_chart_has_the_same_alerts() -> None:
    assert (_DEPLOY / "helm/keyhouse/alerts.yaml").read_bytes() == _ALERTS.read_bytes()

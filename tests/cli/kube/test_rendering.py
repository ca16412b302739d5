"""The reader of the chart's templates, and its schema, without helm."""

import json
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, strategies as st

from keyhouse.base.errors import BrokenError, InvalidError
from keyhouse.cli.kube.installation import OWNED, full_name, policy_name
from keyhouse.cli.kube.rendering.chart import CHART, Release, chart
from keyhouse.cli.kube.rendering.evaluation import TemplateScope
from keyhouse.cli.kube.rendering.functions import to_yaml
from keyhouse.cli.kube.rendering.syntax import Node, parse
from keyhouse.manifest.source.yaml_text import read_yaml

_VALUES = {
    "image": {"repository": "registry.example/keyhouse", "digest": f"sha256:{'a' * 64}"},
    "arguments": ["--platform", "simulation"],
}
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def render(text: str, dot: Any) -> str:
    definitions: dict[str, tuple[Node, ...]] = {}
    nodes = parse(text, definitions)
    return TemplateScope.outermost(dot, definitions, {"a.txt": "file"}).render(nodes)


@pytest.mark.parametrize(
    ("text", "dot", "expected"),
    [
        ("a {{ .x }} b", {"x": 1}, "a 1 b"),
        ("a\n  {{- .x -}}\n b", {"x": "y"}, "ayb"),
        ("{{ if .x }}a{{ else if .y }}b{{ else }}c{{ end }}", {"x": 0, "y": True}, "b"),
        ("{{ with .x }}{{ .y }}{{ else }}none{{ end }}", {"x": {}}, "none"),
        (
            "{{ range $k, $v := .x }}{{ $k }}={{ $v }};{{ end }}",
            {"x": {"b": 2, "a": 1}},
            "a=1;b=2;",
        ),
        ("{{ range .x }}{{ . }},{{ end }}", {"x": [1, 2]}, "1,2,"),
        ('{{ $a := "x" }}{{ if true }}{{ $a }}{{ end }}', {}, "x"),
        ('{{ define "n" }}<{{ . }}>{{ end }}{{ include "n" .x | quote }}', {"x": "y"}, '"<y>"'),
        ("{{ and .x .y.z }}", {"x": False}, "false"),
        ('{{ (index .x "a b").c }}', {"x": {"a b": {"c": 5}}}, "5"),
        ('{{- /* note }} */ -}} {{ .Files.Get "a.txt" | nindent 2 }}', {}, "\n  file"),
        ("{{ $.x.y }}{{ .x.y }}", {"x": {"y": 1}}, "11"),
    ],
)
def test_a_template_gives_what_go_gives(text: str, dot: Any, expected: str) -> None:
    assert render(text, dot) == expected


@pytest.mark.parametrize(
    "text", ["{{ lookup 1 }}", "{{ end }}", "{{ .x.y.z }}", "{{ 'x' }}", "{{ .x | .y }}"]
)
def test_an_unknown_construct_is_an_error_and_not_another_object(text: str) -> None:
    with pytest.raises(BrokenError):
        render(text, {"x": "text"})


@given(_JSON)
def test_a_value_in_yaml_is_read_back_as_the_same_value(value: Any) -> None:
    read = read_yaml(to_yaml({"": value}).encode("utf-8", "replace"))
    if not read.problems:  # control characters are refused, never changed
        assert read.tree == {"": value}


@given(st.dictionaries(st.sampled_from(["sgx", "labels", "host", "store", "probes"]), _JSON))
def test_the_schema_check_agrees_with_a_library(values: dict[str, Any]) -> None:
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    library = jsonschema_rs.validator_for(schema).is_valid({**_VALUES, **values})
    assert (not chart().schema.problems({**_VALUES, **values})) == library


def test_an_unknown_value_is_refused_with_the_nearest_known_name() -> None:
    with pytest.raises(InvalidError) as error:
        chart().completed({**_VALUES, "sgx": {"enable": True}})
    assert str(error.value) == (
        "the values of the chart: sgx.enable: is unknown (did you mean enabled?)"
    )


def test_null_removes_a_default_as_with_helm() -> None:
    assert "enabled" not in chart().completed({**_VALUES, "metrics": {"enabled": None}})["metrics"]


@pytest.mark.parametrize("name", ["keyhouse", "k", "my-keyhouse-of-keys", "x" * 60])
def test_the_names_of_the_command_are_those_of_the_chart(name: str) -> None:
    release = Release(name, "keys")
    objects = chart().render({**_VALUES, "injection": {"enabled": True}}, release)
    names = {each["kind"]: each["metadata"]["name"] for each in objects}
    assert names["StatefulSet"] == full_name(release)
    assert names["MutatingAdmissionPolicy"] == policy_name(release)


def test_every_kind_of_the_chart_is_removed_by_uninstall() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in (CHART / "templates").iterdir())
    kinds = {line.split()[1] for line in text.splitlines() if line.startswith("kind: ")}
    assert kinds - {"PersistentVolumeClaim"} == {kind for _, kind in OWNED}

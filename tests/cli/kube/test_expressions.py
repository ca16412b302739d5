"""The evaluator of the webhook, without an API server. test_webhook.py compares both."""

from contextlib import suppress
from typing import Any, Final

import pytest
import yaml
from hypothesis import given, strategies as st
from support.cluster.pods import CASES, DIGEST, MARBLES, values

from keyhouse.base.errors import BrokenError, RefusedError
from keyhouse.cli.kube.rendering.chart import Release, chart
from keyhouse.cli.kube.webhook.evaluation import Budget, EvaluationScope, ExpressionError, Variables
from keyhouse.cli.kube.webhook.merging import ChangeError, apply_configuration, apply_patch
from keyhouse.cli.kube.webhook.policies import AdmissionRequest, Policies, read_policies
from keyhouse.cli.kube.webhook.syntax import parse

_OBJECT: Final[dict[str, Any]] = {"a": {"b": 1, "c": [3, 1, 2]}, "labels": {"k/v": "x"}, "n": None}


def evaluate(text: str, budget: int = 10_000) -> Any:
    variables = Variables({"twice": parse("object.a.b + object.a.b"), "lost": parse("object.z")})
    names = {"object": _OBJECT, "variables": variables}
    return EvaluationScope(names, Budget(budget)).evaluate(parse(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 + 2 - 3", 0),
        ("-object.a.b", -1),
        ('"a" + "b" == "ab" && 1 != 2', True),
        ('"1" == 1', False),
        ("true == 1", False),
        ("1 in [true]", False),
        ("object.n == null", True),
        ("[1, 2,] + [3]", [1, 2, 3]),
        ('{"a": 1, "b": [2],}', {"a": 1, "b": [2]}),
        ('Object.spec{name: "x", items: []}', {"name": "x", "items": []}),
        ('[JSONPatch{op: "add"}]', [{"op": "add"}]),
        ("has(object.a.b) ? 1 : 2", 1),
        ("has(object.z) ? 1 : has(object.a) ? 2 : 3", 2),
        ('"k/v" in object.labels ? object.labels["k/v"] : ""', "x"),
        ("object.a.c[1]", 1),
        ("object.a.c.map(x, x + 1).filter(x, x > 2)", [4, 3]),
        ("object.labels.map(k, k)", ["k/v"]),
        ("object.a.c.exists(x, x == 2) && !object.a.c.all(x, x < 3)", True),
        ("[].exists(x, x) || [].all(x, x)", True),
        ("variables.twice", 2),
        ('"b,a".split(",").join("+")', "b+a"),
        ('"äb".split("").size() == size("äb")', True),
        ('"ÄB".lowerAscii()', "Äb"),
        ("object.a.c.indexOf(object.a.c.min())", 1),
        ("[1].indexOf(2)", -1),
        ('"abc".contains("bc") && "abc".startsWith("ab")', True),
        ('"a-1".matches("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")', True),
        ('"a\\n".matches("^a$")', False),
        ('string(3) + string(object.labels["k/v"])', "3x"),
        # One side decides alone, although the other side has no value.
        ("object.z || true", True),
        ("object.z && false", False),
        ("false && object.z", False),
        ("object.a.c.exists(x, object.z == x || x == 2)", True),
    ],
)
def test_an_expression_has_the_value_of_the_language(text: str, expected: Any) -> None:
    found = evaluate(text)
    assert found == expected
    assert isinstance(found, bool) == isinstance(expected, bool)


@pytest.mark.parametrize(
    "text",
    [
        "object.z",
        "unknown",
        "object.a.c[3]",
        "object.a.c[-1]",
        "object.a.b.c",
        "has(object.a.b.c)",
        '1 + "a"',
        "1 && true",
        "true ? object.z : 1",
        "object.z || false",
        "[].min()",
        '"a".unknown()',
        "size(1)",
        "1.map(x, x)",
        "variables.none",
        "variables.lost",
        "object.a.c.all(x, x)",
        '"a" < 1',
        "{[1]: 2}",
        "[1] in object",
    ],
)
def test_an_expression_without_a_value_is_an_error(text: str) -> None:
    with pytest.raises(ExpressionError):
        evaluate(text)


@pytest.mark.parametrize(
    "text",
    ["", "1 +", "'a'", "a ? b", "[1", "has(a)", "1 * 2", "a.map(1, 2)", "x{a: 1}", "1 1"],
)
def test_an_unknown_construct_is_refused_at_the_start(text: str) -> None:
    with pytest.raises(BrokenError):
        parse(text)


@given(st.text(alphabet='ab.()[]{}?:!&|"\\ 1,+-<>=\n', max_size=30))
def test_any_text_is_an_expression_or_a_named_error(text: str) -> None:
    with suppress(BrokenError, ExpressionError):
        evaluate(text)


def test_the_work_of_an_expression_is_limited() -> None:
    text = "object.a.c.all(x, object.a.c.all(y, object.a.c.all(z, x + y + z > 0)))"
    assert evaluate(text)
    with pytest.raises(ExpressionError, match="too many steps"):
        evaluate(text, budget=100)


def test_an_unknown_change_is_refused() -> None:
    with pytest.raises(ChangeError):
        apply_configuration({}, {"tolerations": [{"key": "x"}]})
    with pytest.raises(ChangeError):
        apply_patch({"a": 1}, [{"op": "remove", "path": "/a"}])
    assert apply_patch({"a": [1]}, [{"op": "add", "path": "/a/0", "value": 2}]) == {"a": [2, 1]}
    assert apply_patch({}, [{"op": "add", "path": "/b~1c", "value": 2}]) == {"b/c": 2}


@pytest.fixture(scope="module")
def policies() -> Policies:
    launcher = {"repository": "registry.example/launcher", "digest": DIGEST}
    given = values(launcher=launcher, webhook={"enabled": True})
    objects = chart().render(given, Release("keyhouse", "keys"))
    (found,) = [e for e in objects if e["metadata"]["name"] == "keyhouse-webhook" and "data" in e]
    return read_policies(found["data"]["policies.yaml"].encode())


def test_the_webhook_has_the_text_of_the_policies_of_the_chart() -> None:
    """Every rule is written once: the file and the objects are equal."""
    objects = chart().render(values(webhook={"enabled": True}), Release("keyhouse", "keys"))
    (found,) = [e for e in objects if e["metadata"]["name"] == "keyhouse-webhook" and "data" in e]
    as_policies = chart().render(values(), Release("keyhouse", "keys"))
    inside = [*yaml.safe_load_all(found["data"]["policies.yaml"])]
    outside = [each for each in as_policies if each["kind"].endswith("AdmissionPolicy")]
    assert inside == outside
    configured = {e["kind"]: e["webhooks"][0] for e in objects if "webhooks" in e}
    for policy in outside:
        webhook = configured[policy["kind"].replace("AdmissionPolicy", "WebhookConfiguration")]
        assert webhook["rules"] == policy["spec"]["matchConstraints"]["resourceRules"]
        assert webhook["matchConditions"] == policy["spec"]["matchConditions"]


@pytest.mark.parametrize("name", CASES)
def test_every_case_is_changed_or_refused(policies: Policies, name: str) -> None:
    thing = CASES[name]
    request = AdmissionRequest(uid="1", namespace="keys", operation="CREATE", object=thing)
    refusal = policies.validating.refusal(request, {"data": {"marbles": "\n".join(MARBLES)}})
    is_wrong = any(word in name for word in ("slip", "unknown", "wrong", "two marbles", "empty"))
    is_wrong |= name in {"another case", "a shortened name", "a container alone"}
    is_wrong |= name == "a launcher without a command"
    assert bool(refusal) == is_wrong, refusal
    if thing["kind"] == "Pod":
        labels = thing["metadata"]["labels"]
        has_label = bool({"keyhouse/marble", "marblerun/marbletype"} & labels.keys())
        assert (policies.mutating.changed(request) != thing) == has_label


def test_a_file_without_policies_is_refused() -> None:
    for content in (b"", b"kind: ConfigMap\nspec: {}\n", b"\t: [", b"a: 1\n---\nb: 2\n"):
        with pytest.raises(RefusedError):
            read_policies(content)

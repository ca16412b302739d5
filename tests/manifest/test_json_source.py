"""Where the parts of a JSON text stand."""

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from keyhouse.manifest.source.json_source import json_places, json_problem
from keyhouse.manifest.source.source_map import Span, below

_KEYS = st.text('ab "\\[]{}:,\n', max_size=3)
_VALUES = st.recursive(
    st.none() | st.integers() | _KEYS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=3),
    max_leaves=10,
)


def test_members_stand_at_their_values_or_keys_and_items_at_themselves() -> None:
    places = json_places(b'{"Packages": {"app": 1},\r\n "L": [1, {"a": [2]}]}')

    assert places.find("Packages.app") == Span(1, 22, 1)
    assert places.find("Packages.app", key=True) == Span(1, 15, 5)
    assert places.find("Packages") == Span(1, 2, 10)
    assert places.find("L[1].a[0]") == Span(2, 18, 1)
    assert places.find("packages.app.UniqueID") == Span(1, 15, 5)
    assert places.find("L[7]") == Span(2, 2, 3)


def test_of_a_key_that_comes_twice_the_last_one_is_meant() -> None:
    assert json_places(b'{"a": 1,\n"a": 2}').find("a") == Span(2, 6, 1)
    assert json_places(b'{"a": 1,\n"a": {}}').find("a") == Span(2, 1, 3)


def test_of_what_is_no_json_the_first_error_is_known() -> None:
    assert json_places(b'{"a":\n }').find("") == Span(2, 2, 1)


@given(st.binary(max_size=40) | st.text('{}[]:,"a1 \n', max_size=40).map(str.encode))
def test_no_text_makes_it_fail(data: bytes) -> None:
    json_places(data)


def _parts(value: Any, path: str = "") -> dict[str, str | None]:
    """Return the paths of everything below ``value``, with the key of each member."""
    found: dict[str, str | None] = {}
    steps = value.items() if isinstance(value, dict) else enumerate(value)
    for step, inner in steps:
        here = below(path, step)
        found[here] = step if isinstance(step, str) else None
        if isinstance(inner, dict | list):
            found |= _parts(inner, here)
    return found


@given(_VALUES, st.sampled_from([None, 0, 2]))
def test_at_the_place_of_every_member_stands_its_key(value: object, indent: int | None) -> None:
    text = json.dumps({"top": value}, indent=indent)
    lines, places = text.split("\n"), json_places(text.encode())

    for path, key in _parts({"top": value}).items():
        span = places.find(path, key=True)
        assert span is not None
        shown = lines[span.line - 1][span.column - 1 :][: span.width]
        assert key is None or json.loads(shown) == key


@pytest.mark.parametrize(
    ("text", "reason", "caret"),
    [
        (b'{"a": 1,\n}', "a comma too many", (1, 8)),
        (b'{"a": [1, 2,]}', "a comma too many", (1, 12)),
        (b'{"a": 1,, "b": 2}', "a comma too many", (1, 9)),
        (b'{\n// x\n"a": 1}', "a comment", (2, 1)),
        (b'{"a": 1 # x\n}', "a comment", (1, 9)),
        (b"{'a': 1}", "single quotes", (1, 2)),
        (b"{a: 1}", "a name without quotes", (1, 2)),
        (b'{"a": yes}', "a value without quotes, or none", (1, 7)),
        (b'{"a": }', "a value without quotes, or none", (1, 7)),
        (b'{"a" 1}', "no colon after a name", (1, 6)),
        (b'{"a": 1 "b": 2}', "no comma between two values", (1, 9)),
        (b'{"a": 010}', "an invalid number", (1, 8)),
        (b'{"a": "x', "a string that does not end", (1, 7)),
        (b'{"a": "x\ny"}', "a line end or control character in a string", (1, 9)),
        (b'{"a": "C:\\Users"}', "an invalid escape in a string", (1, 10)),
        (b'{"a": {"b": 1}\n', "it ends before its }", (2, 1)),
        (b'{"a": [1}', "} where ] is needed", (1, 9)),
        (b'{"a": 1}\n{', "further text after its end", (2, 1)),
        (b"Packages: {}", "it does not begin with {", (1, 1)),
    ],
)
def test_invalid_json_has_a_reason_and_a_place(
    text: bytes, reason: str, caret: tuple[int, int]
) -> None:
    problem, span = json_problem(text), json_places(text).find("")

    assert problem is not None
    assert problem.problem == f"invalid JSON: {reason}"
    assert "yaml" not in problem.hint
    assert span is not None
    assert (span.line, span.column) == caret


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "is empty"),
        (b" \r\n", "is empty"),
        (b"\xef\xbb\xbf{}", "begins with a byte-order mark"),
        (b"\xff\xfe{\0}\0", "is UTF-16, not UTF-8"),
        (b'{"a":\n"\xe4"}', "is not UTF-8, byte 8 in line 2"),
        (b'{"a":\0}', "is binary: byte 6 is zero"),
        (b"\x1f\x8b\x08\0", "is compressed (gzip)"),
        (b"-----BEGIN CERTIFICATE-----\n", "is a certificate or a key (PEM)"),
    ],
)
def test_what_is_not_text_is_told(data: bytes, problem: str) -> None:
    found = json_problem(data)

    assert found is not None
    assert (found.problem, found.hint != "") == (problem, True)


@given(st.binary(max_size=40) | st.text('{}[]:,"a1\\u# \n', max_size=40).map(str.encode))
def test_a_text_has_a_problem_if_and_only_if_it_is_invalid(data: bytes) -> None:
    try:
        json.loads(data.decode())
    except ValueError:
        assert json_problem(data) is not None
    else:
        assert json_problem(data) is None

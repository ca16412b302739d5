"""Where the parts of a JSON text stand."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from keyhouse.manifest.source.json_source import json_places
from keyhouse.manifest.source.source_map import Span, below

_KEYS = st.text('ab "\\[]{}:,\n', max_size=3)
_VALUES = st.recursive(
    st.none() | st.integers() | _KEYS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=3),
    max_leaves=10,
)


def test_members_stand_at_their_keys_and_items_at_themselves() -> None:
    places = json_places(b'{"Packages": {"app": 1},\r\n "L": [1, {"a": [2]}]}')

    assert places.find("Packages.app") == Span(1, 15, 5)
    assert places.find("L[1].a[0]") == Span(2, 18, 1)
    assert places.find("packages.app.UniqueID") == Span(1, 15, 5)
    assert places.find("L[7]") == Span(2, 2, 3)


def test_of_a_key_that_comes_twice_the_last_one_is_meant() -> None:
    assert json_places(b'{"a": 1,\n"a": 2}').find("a") == Span(2, 1, 3)


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
        span = places.find(path)
        assert span is not None
        shown = lines[span.line - 1][span.column - 1 :][: span.width]
        assert key is None or json.loads(shown) == key

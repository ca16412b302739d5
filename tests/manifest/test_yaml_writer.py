"""What is written as YAML reads back as the same."""

import pytest
import yaml
from hypothesis import given, strategies as st

from keyhouse.manifest.source.yaml_text import read_yaml, write_yaml

_PRINTABLE = st.text(
    st.characters(min_codepoint=32, max_codepoint=0x2FF, exclude_characters="\x7f")
)
_TEXT = (
    _PRINTABLE
    | st.text("ab \n#:-|'\"%0.")
    | st.from_regex(r"[-+]?0?[xo]?[0-9a-fe._]+", fullmatch=True)
)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | _TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXT, inner, max_size=4),
    max_leaves=10,
)


@given(_VALUES)
def test_every_reader_gets_back_what_was_written(value: object) -> None:
    text = write_yaml({"a": value})
    read = read_yaml(text.encode())

    assert (read.problems, read.tree) == ((), {"a": value})
    assert yaml.safe_load(text) == {"a": value}  # by the rules of YAML 1.1


@pytest.mark.parametrize(
    "text", ["yes", "NO", "1e3", "0o17", "12:30:00", "2026-01-01", "~", "", "="]
)
def test_what_could_be_treated_as_something_else_is_quoted(text: str) -> None:
    assert write_yaml(text).startswith('"')


def test_lines_stay_lines() -> None:
    assert write_yaml({"a": "one\ntwo\n"}) == "a: |\n  one\n  two\n"

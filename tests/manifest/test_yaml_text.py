"""YAML says one thing, or is refused: what it is read as, and the one JSON text of that."""

import json

import pytest
from hypothesis import given, strategies as st

from keyhouse.manifest.source.json_source import canonical_json
from keyhouse.manifest.source.source_map import Span
from keyhouse.manifest.source.yaml_text import MAX_YAML_BYTES, YamlRead, read_yaml

_CHARACTERS = st.characters(exclude_categories=["Cs"])
_TEXT = st.text(_CHARACTERS)
_NAMES = st.text(_CHARACTERS, max_size=150)  # YAML takes 1,024 bytes, and JSON may write 6 for one
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | _TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_NAMES, inner, max_size=4),
    max_leaves=12,
)


def read(text: str) -> YamlRead:
    return read_yaml(text.encode())


def tree(text: str) -> object:
    """Return what ``text`` says; there is nothing wrong with it."""
    found = read(text)
    assert found.problems == ()
    return found.tree


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("a: yes", "yes"),
        ("a: NO", "NO"),
        ("a: on", "on"),
        ("a: True", True),
        ("a: 'true'", "true"),
        ("a: ~", None),
        ("a:", None),
        ('a: ""', ""),
        ("a: 12", 12),
        ("a: -5", -5),
        ("a: 0x1F", 31),
        ("a: 0o17", 15),
        ("a: 1_000", "1_000"),
        ("a: 12:30:00", "12:30:00"),
        ("a: 2026-11-21", "2026-11-21"),
        ("a: =", "="),
        ("a: |\n  one\n  two\n", "one\ntwo\n"),
        ("a: >-\n  one\n  two\n", "one two"),
        ("a: {{ x }}".replace("{{ x }}", "'{{ hex .Secrets.k }}'"), "{{ hex .Secrets.k }}"),
        ("a: [1, b] # why", [1, "b"]),
    ],
)
def test_scalars_mean_what_the_core_schema_says(text: str, meant: object) -> None:
    assert tree(text) == {"a": meant}


@pytest.mark.parametrize(
    ("text", "at", "problem"),
    [
        ("a: &x 1", "a", "has an anchor (&)"),
        ("a: 1\nb: *x", "b", "is an alias (*)"),
        ("a: !!binary AAAA", "a", "has a tag (!)"),
        ("a: 010", "a", "is a number with leading zeros"),
        ("a: " + "0" * 63 + "1", "a", "is a number with leading zeros"),
        ("a: 1e3", "a", "is a number with a fraction or an exponent"),
        ("a: 12e45", "a", "is a number with a fraction or an exponent"),
        ("a: .inf", "a", "is a number with a fraction or an exponent"),
        ("a: " + "9" * 5000, "a", "is a number out of range"),
        ("a: 1\na: 2", "a", "is given more than once"),
        ("yes: 1\nno: 2\ntrue: 3", "true", "is a key that is not a string"),
        ("8080: 1", "8080", "is a key that is not a string"),
        ("<<: {a: 1}", '["<<"]', "is a key that is not a string"),
        ('a: "\\ud800"', "a", "holds half of a surrogate pair"),
        ("? [a]\n: 1", "", "has a key that is not a string"),
        ("a: 1\n---\nb: 2", "", "holds a further document"),
        ("%YAML 1.1\n---\na: 1", "", "has a directive (%)"),
        ("a: 1\nb: [", "", "invalid YAML: it ends before"),
        ("\tb: 1", "", "invalid YAML: a tab"),
        ("a: b: c", "", "invalid YAML: a colon where no name ends, or wrong indentation"),
        ("a:\n  b: 1\n c: 2", "", "invalid YAML: wrong indentation"),
        ("a: 'x", "", "invalid YAML: a string that does not end"),
        ('a: "\\q"', "", "invalid YAML: an unknown escape in a string"),
        ("a: 1\nb", "", "invalid YAML: a name without a colon"),
        ("a: @x", "", "invalid YAML: a character that begins no value"),
        ("a: {b: 1", "", "invalid YAML: an object that does not end, or lacks a comma"),
        ("a: [1, 2", "", "invalid YAML: a list that does not end, or lacks a comma"),
        ("a: ]", "", "invalid YAML: a bracket that was not opened"),
        ("a: 'it's'", "", "invalid YAML: further text after a value"),
        ("a: - b", "", "invalid YAML: an item beside a name"),
        ("a: x\u2028y", "", "holds a line end that only YAML 1.1 knows (U+0085, U+2028, U+2029)"),
        ("a: \x01", "", "holds a character that YAML does not allow"),
        ("\ufeffa: 1", "", "begins with a byte-order mark"),
        ("# nothing", "", "is empty"),
        ("[" * 100, "", "has over 64 levels"),
        ("x" * (MAX_YAML_BYTES + 1), "", "has 1048577 bytes; a YAML text may have at most 1048576"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_what_readers_could_differ_on_is_refused(text: str, at: str, problem: str) -> None:
    first = read(text).problems[0]

    assert first.at == at
    assert first.problem.startswith(problem)


def test_bytes_that_are_not_text_are_refused() -> None:
    assert read_yaml(b"a: \xff").problems[0].problem == "is not UTF-8, byte 4 in line 1"


def test_a_bomb_of_aliases_is_refused_at_its_first_one() -> None:
    bomb = "a: &a [x, x]\n" + "".join(f"a{n}: &b{n} [*a, *a, *a]\n" for n in range(50))

    assert {each.problem for each in read(bomb).problems} == {
        "has an anchor (&)",
        "is an alias (*)",
    }


def test_parts_are_found_by_their_paths_in_any_case_and_else_what_holds_them() -> None:
    places = read("packages:\n  app:\n    uniqueid: x\nList: [a, {b: c}]").places

    assert places.find("Packages.app.UniqueID") == Span(3, 15, 1)
    assert places.find("List[1].b") == Span(4, 15, 1)
    assert places.find("Packages.app.SecurityVersion") == Span(2, 3, 3)
    assert places.find("Marbles") is None


@given(_VALUES)
def test_json_is_yaml_and_means_the_same(value: object) -> None:
    text = json.dumps({"a": value})
    found = read_yaml(text.encode())

    if any(each > "\uffff" for each in json.dumps(value, ensure_ascii=False)):
        assert found.problems  # what JSON has for such a character, two surrogates, is no YAML
    else:
        assert (found.problems, found.tree) == ((), {"a": value})


@given(st.binary(max_size=60) | st.text("ab: -[]{}&*!%'\"|>\n#?,0", max_size=60).map(str.encode))
def test_no_text_makes_the_reader_fail(data: bytes) -> None:
    found = read_yaml(data)

    assert found.problems or json.loads(canonical_json(found.tree)) == found.tree


# --- the one JSON text ---


def test_canonical_json_is_that_of_rfc_8785() -> None:
    value = {"\u20ac": 'a\u20ac\r\n\u000f"\\/', "\ufb33": [True, None], "\U0001f600": {}, "1": 56}

    assert canonical_json(value) == (
        '{"1":56,"€":"a€\\r\\n\\u000f\\"\\\\/","\U0001f600":{},"\ufb33":[true,null]}'.encode()
    )


@given(_VALUES)
def test_canonical_json_reads_back_and_is_the_same_whatever_the_order(value: object) -> None:
    text = canonical_json(value)

    assert json.loads(text) == value
    assert canonical_json(json.loads(text, object_pairs_hook=lambda p: dict(reversed(p)))) == text


def test_comments_order_and_style_do_not_change_the_bytes() -> None:
    one, other = "b: [x, 1]\na: y", '# why\n"a": \'y\'\nb:\n- "x"\n- 0x1\n'

    assert canonical_json(tree(one)) == canonical_json(tree(other)) == b'{"a":"y","b":["x",1]}'

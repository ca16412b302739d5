"""JSON to typed values."""

import base64
import json
from typing import NewType

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from keyhouse.base.errors import BadRequestError, Problem
from keyhouse.base.secret import Secret
from keyhouse.wire.json_decoder import UInt16, UInt64, decode, nearest, read
from keyhouse.wire.json_parser import UnreadableError

Name = NewType("Name", str)


class Inner(msgspec.Struct, frozen=True, rename="pascal"):
    size: UInt64 = 0
    small: UInt16 | None = None
    flag: bool = False


class Must(msgspec.Struct, frozen=True):
    key: str


class Outer(msgspec.Struct, frozen=True, rename="camel"):
    name: Name = Name("")
    data: bytes = b""
    key: Secret | None = None
    many: tuple[Inner, ...] = ()
    by_name: dict[str, Inner] = {}
    either: str | Inner = ""
    maybe: bytes | Inner | None = None
    musts: tuple[Must, ...] = ()
    eithers: dict[str, str | Inner] = {}
    number: int = 0
    rest: object = None


def problems_of(value: object) -> list[tuple[str, str]]:
    with pytest.raises(UnreadableError) as refused:
        decode(json.dumps(value).encode(), Outer)
    return [(problem.at, problem.problem) for problem in refused.value.problems]


def test_fields_are_found_in_any_case() -> None:
    assert decode(b'{"BYNAME":{"a":{"SIZE":1}},"NaMe":"x"}', Outer) == Outer(
        name=Name("x"), by_name={"a": Inner(size=1)}
    )


def test_names_fold_in_ascii_only() -> None:
    assert decode('{"\u212aey":"QQ=="}'.encode(), Outer).key is None  # the Kelvin sign
    assert decode('{"\u017fize":1}'.encode(), Inner).size == 0  # the long s


def test_unknown_fields_are_ignored_or_told() -> None:
    raw = b'{"nane":1,"byName":{"my key":{"Sise":2}}}'
    assert decode(raw, Outer) == Outer(by_name={"my key": Inner()})
    assert read(raw, Outer).problems == (
        Problem('byName["my key"].Sise', "unknown field", "did you mean Size?"),
        Problem("nane", "unknown field", "did you mean name?"),
    )


@pytest.mark.parametrize(
    ("raw", "places"),
    [
        (b'{"name":"a","NAME":"b"}', ["name"]),
        (b'{"name":"a","name":"b"}', ["name"]),
        (b'{"name":null,"name":null}', ["name"]),
        (b'{"byName":{"a":{},"a":{},"A":{}}}', ["byName.a"]),
        (b'{"many":[{},{"size":1,"Size":2}]}', ["many[1].Size"]),
        (b'{"odd":1,"odd":2}', ["odd", "odd"]),
    ],
)
def test_repeated_keys_are_told(raw: bytes, places: list[str]) -> None:
    assert [problem.at for problem in read(raw, Outer).problems] == places


def test_elsewhere_the_last_of_repeated_fields_wins() -> None:
    assert decode(b'{"name":"a","NAME":"b"}', Outer).name == "b"
    assert decode(b'{"NAME":"a","name":"b","NAME":"c"}', Outer).name == "c"


def test_null_means_not_given() -> None:
    raw = b'{"name":null,"data":null,"key":null,"many":null,"byName":null,"either":null}'
    assert decode(raw, Outer) == Outer()
    assert decode(b"null", Outer) == Outer()
    assert decode(b'{"many":[null],"byName":{"a":null}}', Outer) == Outer(
        many=(Inner(),), by_name={"a": Inner()}
    )


def test_null_has_no_meaning_where_a_type_has_no_empty_value() -> None:
    assert problems_of({"eithers": {"a": None}, "musts": [None, {"key": None}]}) == [
        ("eithers.a", "is null, must be a string or an object"),
        ("musts[0]", "is null, must be an object"),
        ("musts[1].key", "is missing"),
    ]


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (-1, "is out of range, must be an integer from 0 to 18446744073709551615"),
        (2**64, "is out of range, must be an integer from 0 to 18446744073709551615"),
        (10**100, "is out of range, must be an integer from 0 to 18446744073709551615"),
        (1.0, "has a fraction or an exponent, must be an integer from 0 to 18446744073709551615"),
        ("1", "is a string, must be an integer from 0 to 18446744073709551615"),
        (True, "is true or false, must be an integer from 0 to 18446744073709551615"),
        ([], "is a list, must be an integer from 0 to 18446744073709551615"),
    ],
)
def test_unsigned_integers_have_one_form(value: object, problem: str) -> None:
    assert problems_of({"many": [{}, {"Size": value}]}) == [("many[1].Size", problem)]


def test_integers_reach_their_limits() -> None:
    made = decode(b'{"many":[{"Size":18446744073709551615,"Small":65535}]}', Outer)
    assert made.many == (Inner(2**64 - 1, 65535),)
    assert decode(b'{"number":-9223372036854775808}', Outer).number == -(2**63)
    assert problems_of({"many": [{"Small": 65536}]}) == [
        ("many[0].Small", "is out of range, must be an integer from 0 to 65535")
    ]


def test_bytes_come_as_base64_or_numbers() -> None:
    assert decode(b'{"data":"AA\\r\\nEC"}', Outer).data == b"\0\1\2"
    assert decode(b'{"data":[0,1,255]}', Outer).data == b"\0\1\xff"
    assert decode(b'{"data":[]}', Outer).data == b""
    assert decode(b'{"key":[65]}', Outer).key == Secret(b"A")


@pytest.mark.parametrize(
    "value", ["QQ", "QQ=", "QR==", "QQ==QQ==", "Q Q==", "-_8=", "é", "=", [256], [-1], ["A"],
              [1.0], [True], [None], 5, {}, True],
)  # fmt: skip
def test_other_bytes_are_refused(value: object) -> None:
    assert [at for at, _ in problems_of({"key": value, "data": value})] == ["data", "key"]


def test_strings_and_objects_are_told_apart() -> None:
    assert decode(b'{"either":"a","maybe":"QQ=="}', Outer) == Outer(either="a", maybe=b"A")
    assert decode(b'{"either":{"size":1},"maybe":{}}', Outer) == Outer(
        either=Inner(1), maybe=Inner()
    )
    assert problems_of({"either": 1}) == [("either", "is a number, must be a string or an object")]


def test_every_problem_is_told_at_once() -> None:
    value = {"name": 1, "many": {"a": 1}, "byName": [], "eithers": {"x y": {"Flag": 0}}}
    assert problems_of(value) == [
        ("byName", "is a list, must be an object"),
        ('eithers["x y"].Flag', "is a number, must be true or false"),
        ("many", "is an object, must be a list"),
        ("name", "is a number, must be a string"),
    ]


@pytest.mark.parametrize("raw", [b"[]", b'"a"', b"1", b"true"])
def test_the_whole_must_have_the_right_type(raw: bytes) -> None:
    with pytest.raises(UnreadableError) as refused:
        decode(raw, Outer)
    assert [problem.at for problem in refused.value.problems] == [""]
    assert list(refused.value.fields) == ["body"]
    assert isinstance(refused.value, BadRequestError)


def test_null_is_no_value_of_a_type_that_needs_fields() -> None:
    with pytest.raises(UnreadableError):
        decode(b"null", Must)


def test_text_after_the_value_is_refused_or_ignored() -> None:
    assert decode(b'{"name":"a"} x', Outer, ignore_rest=True).name == "a"
    with pytest.raises(UnreadableError):
        decode(b'{"name":"a"} x', Outer)


def test_hostile_numbers_of_findings_stay_bounded() -> None:
    many = {f"unknown{index}": 1 for index in range(20_000)}
    assert len(read(json.dumps(many).encode(), Outer).problems) == 1_000
    assert len(problems_of({"many": [1] * 20_000})) == 1_000


def test_spellings_of_one_field_are_told_once() -> None:
    spelled = ",".join(
        f'"{"".join(c.upper() if n >> i & 1 else c for i, c in enumerate("number"))}":1'
        for n in range(64)
    )
    assert [p.at for p in read(f"{{{spelled}}}".encode(), Outer).problems] == ["number"]


@pytest.mark.parametrize("kind", [float, list[int], str | bytes, set[str]])
def test_hints_without_a_json_form_are_our_own_mistake(kind: object) -> None:
    with pytest.raises(TypeError):
        decode(b"{}", kind)  # type: ignore[arg-type]


def test_the_nearest_word_is_named() -> None:
    assert nearest("uptodate", ("UpToDate", "Revoked")) == "did you mean UpToDate?"
    assert nearest("x", ("UpToDate", "Revoked")) == "use one of UpToDate, Revoked"
    assert not nearest("x", ())


def test_no_message_holds_a_value() -> None:
    canary = "c4n4ry-c4n4ry-c4n4ry"
    for value in (canary, [canary], {"a": canary}, base64.b64encode(canary.encode()).decode()[:-1]):
        for field in ("data", "key", "many", "byName", "maybe", "musts", "number"):
            with pytest.raises(UnreadableError) as refused:
                decode(json.dumps({field: value, "name": 1}).encode(), Outer)
            shown = f"{refused.value} {refused.value.fields} {refused.value.problems}"
            assert canary not in shown
            assert refused.value.__cause__ is None


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(
                st.sampled_from([*Outer.__struct_encode_fields__, "Size", "Small", "Flag", "a"]),
                inner,
            )
        ),
        max_leaves=20,
    )
)
@settings(max_examples=500)
def test_arbitrary_json_becomes_a_value_or_our_error(value: object) -> None:
    raw = json.dumps(value).encode()
    try:
        made = read(raw, Outer)
    except UnreadableError:
        return
    assert made.value == decode(raw, Outer)

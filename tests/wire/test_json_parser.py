"""JSON text to plain values."""

import json
import sys
import tracemalloc

import pytest
from hypothesis import given, settings, strategies as st

from keyhouse.wire.json_parser import (
    INEXACT,
    MAX_NESTING,
    MAX_VALUES,
    Repeated,
    UnreadableError,
    read_json,
)


def problem_of(data: bytes, *, ignore_rest: bool = False) -> str:
    with pytest.raises(UnreadableError) as refused:
        read_json(data, ignore_rest=ignore_rest)
    (problem,) = refused.value.problems
    return problem.problem


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "is empty"),
        (b" \n", "is empty"),
        (b'\xef\xbb\xbf{"a":1}', "begins with a byte-order mark"),
        (b'{"a":\n "\xff"}', "is not UTF-8, byte 9"),
        (b'"\xed\xa0\x80"', "is not UTF-8, byte 2"),
        (b'"\xc0\xaf"', "is not UTF-8, byte 2"),
        (b'"\\ud800"', "holds half of a surrogate pair (\\ud800 to \\udfff)"),
        (b'{"\\udfff": 1}', "holds half of a surrogate pair (\\ud800 to \\udfff)"),
        (b'[{"a":["\\ud83d\\\\ude00"]}]', "holds half of a surrogate pair (\\ud800 to \\udfff)"),
        (b"[NaN]", "holds NaN or Infinity, which are not JSON"),
        (b"[-Infinity]", "holds NaN or Infinity, which are not JSON"),
        (b"{} x", "has further text after its end, line 1, column 3"),
        (b"{}\x00", "has further text after its end, line 1, column 3"),
        (b"{}{}", "has further text after its end, line 1, column 3"),
        (b'{"a":\n  b}', "is not JSON, line 2, column 3"),
        # Python 3.13 and newer name the comma, earlier versions the bracket.
        (b"[1,]", f"is not JSON, line 1, column {3 if sys.version_info >= (3, 13) else 4}"),
        (b"{'a':1}", "is not JSON, line 1, column 2"),
        (b'"a\nb"', "is not JSON, line 1, column 3"),
        (b"[01]", "is not JSON, line 1, column 3"),
        (b"\xc2\xa0{}", "is not JSON, line 1, column 1"),
        (b"Packages: {}", "is not JSON, line 1, column 1"),
    ],
)
def test_what_is_no_json_is_refused_with_its_position(data: bytes, problem: str) -> None:
    assert problem_of(data) == problem


def test_values_are_read() -> None:
    value = read_json(b' {"a": [1, -2, true, null, "\\u00e4\\ud83d\\ude00"]}\r\n')
    assert value == {"a": [1, -2, True, None, "ä😀"]}


@pytest.mark.parametrize("number", [b"1.0", b"1e2", b"1E400", b"-0.5", b"1." + b"1" * 100_000])
def test_numbers_with_fraction_or_exponent_have_no_value(number: bytes) -> None:
    assert read_json(number) is INEXACT


def test_integers_of_64_bits_are_exact() -> None:
    assert read_json(b"[18446744073709551615,-9223372036854775808]") == [2**64 - 1, -(2**63)]


@pytest.mark.parametrize("digits", [20, 25, 26, 5_000, 1_000_000])
def test_longer_integers_stay_out_of_range(digits: int) -> None:
    large = read_json(b"9" * digits)
    small = read_json(b"-" + b"9" * digits)
    assert isinstance(large, int)
    assert isinstance(small, int)
    assert large >= 2**64
    assert small < -(2**63)


def test_the_rest_is_ignored_if_asked() -> None:
    for rest in (b"{", b" garbage", b"\xff\xfe", b"[" * 1000):
        assert read_json(b'{"a":1}' + rest, ignore_rest=True) == {"a": 1}


def test_bytes_that_are_no_utf8_within_the_value_are_refused_nevertheless() -> None:
    assert problem_of(b'{"a":"\xff"}', ignore_rest=True) == "is not UTF-8, byte 7"


def test_repeated_keys_are_noticed_and_the_last_wins_in_its_place() -> None:
    value = read_json(b'{"a":1,"b":2,"a":3}')
    assert isinstance(value, Repeated)
    assert list(value.items()) == [("b", 2), ("a", 3)]
    assert value.names == ("a",)


def test_nesting_is_limited() -> None:
    for opening, closing in ((b"[", b"]"), (b'{"a":', b"}")):
        inner = b"1" if opening != b"[" else b""
        good = opening * MAX_NESTING + inner + closing * MAX_NESTING
        assert read_json(good)
        assert problem_of(opening + good + closing) == "is nested deeper than 64 levels"
        assert problem_of(opening * 1_000_000) in {
            "is nested deeper than 64 levels",
            f"holds more than {MAX_VALUES} values",
        }


def test_brackets_in_strings_are_no_nesting() -> None:
    text = '["' + "[{" * 100 + '", "\\\\", "\\"' + "[" * 100 + '"]'
    assert read_json(text.encode()) == json.loads(text)


def test_many_siblings_are_no_nesting() -> None:
    assert read_json(b"[" + b"[[]]," * 100 + b"1]")


def test_the_number_of_values_is_limited() -> None:
    good = b"[" + b"1," * (MAX_VALUES - 2) + b"1]"
    assert read_json(good)
    assert problem_of(b"[" + b"1," * MAX_VALUES + b"1]") == f"holds more than {MAX_VALUES} values"


@pytest.mark.parametrize("part", [b'"",', b'"a":1,', b"[],", b'"\\\\",', b'"\\"",'])
def test_a_refusal_of_16_mebibytes_costs_little_memory(part: bytes) -> None:
    data = b"[" + part * (16 * 1024 * 1024 // len(part))
    tracemalloc.start()
    try:
        problem_of(data)
        assert tracemalloc.get_traced_memory()[1] < 150_000_000
    finally:
        tracemalloc.stop()


@given(
    st.binary(max_size=100) | st.text(alphabet='[]{},:"\\u0d8 1e-n', max_size=60).map(str.encode)
)
@settings(max_examples=500)
def test_whatever_is_accepted_is_json_and_nothing_else_is_raised(data: bytes) -> None:
    try:
        value = read_json(data)
    except UnreadableError:
        return
    expected = json.loads(data)
    assert value is INEXACT or type(value) is type(expected) or isinstance(value, Repeated)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
@settings(max_examples=200)
def test_what_json_writes_is_read_back(value: object) -> None:
    for ascii_only in (True, False):
        assert read_json(json.dumps(value, ensure_ascii=ascii_only).encode()) == value

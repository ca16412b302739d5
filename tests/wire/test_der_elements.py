"""DER cut into elements: each length form, and whatever is not whole."""

import pytest
from hypothesis import given, strategies as st

from keyhouse.base.byte_reader import der_elements


def _der(tag: int, content: bytes) -> bytes:
    size = len(content)
    if size < 128:
        return bytes([tag, size]) + content
    octets = size.to_bytes((size.bit_length() + 7) // 8)
    return bytes([tag, 128 | len(octets)]) + octets + content


ELEMENTS = st.lists(st.tuples(st.integers(0, 255), st.binary(max_size=400)), max_size=5)


@given(ELEMENTS)
def test_elements_are_those_that_were_written(elements: list[tuple[int, bytes]]) -> None:
    assert list(der_elements(b"".join(_der(*each) for each in elements))) == elements


@given(ELEMENTS.filter(bool), st.integers(min_value=1, max_value=400))
def test_what_is_cut_off_is_refused(elements: list[tuple[int, bytes]], missing: int) -> None:
    *_, last = [_der(*each) for each in elements]
    with pytest.raises(ValueError, match=r"truncated|length"):
        list(der_elements(last[: -min(missing, len(last) - 1)]))


@pytest.mark.parametrize("length", ["80", "ff", "850000000001", "85" + "ff" * 5])
def test_lengths_without_an_end_or_without_a_bound_are_refused(length: str) -> None:
    with pytest.raises(ValueError, match="length"):
        list(der_elements(bytes.fromhex("30" + length) + bytes(10)))


def test_elements_before_the_damage_are_given() -> None:
    elements = der_elements(bytes.fromhex("0201070204"))
    assert next(elements) == (2, b"\x07")
    with pytest.raises(ValueError, match="truncated"):
        next(elements)

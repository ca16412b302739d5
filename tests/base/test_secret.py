"""Secrets never show their bytes."""

import json
import pickle
from typing import Any

import msgspec
import pytest

from keyhouse.base.secret import Secret

HIDDEN = b"the-key-of-the-house"


def test_no_way_of_printing_shows_the_bytes() -> None:
    secret = Secret(HIDDEN)
    for text in (repr(secret), str(secret), f"{secret}", "%r" % (secret,)):  # noqa: UP031
        assert "the-key" not in text
        assert "20 bytes" in text


def test_encoders_and_pickle_fail() -> None:
    secret = Secret(HIDDEN)
    with pytest.raises(TypeError):
        json.dumps(secret)
    with pytest.raises(TypeError):
        msgspec.json.encode(secret)
    with pytest.raises(TypeError):
        msgspec.msgpack.encode(secret)
    with pytest.raises(TypeError, match="pickled"):
        pickle.dumps(secret)
    with pytest.raises(TypeError):
        hash(secret)


@pytest.mark.parametrize("value", ["text", 5, [1, 2], None])
def test_what_is_no_bytes_is_refused_and_no_number_of_zeros(value: Any) -> None:
    with pytest.raises(TypeError):
        Secret(value)
    like_bytes: list[Any] = [bytearray(HIDDEN), memoryview(HIDDEN)]
    assert [Secret(each) for each in like_bytes] == [Secret(HIDDEN)] * 2


def test_equality_is_by_content_and_only_among_secrets() -> None:
    assert Secret(HIDDEN) == Secret(HIDDEN)
    assert Secret(HIDDEN) != Secret(b"other")
    assert Secret(HIDDEN) != HIDDEN
    assert len(Secret(HIDDEN)) == 20
    assert Secret(HIDDEN).reveal() == HIDDEN

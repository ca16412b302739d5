"""Secrets show nothing."""

import json
import pickle

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


def test_equality_is_by_content_and_only_among_secrets() -> None:
    assert Secret(HIDDEN) == Secret(HIDDEN)
    assert Secret(HIDDEN) != Secret(b"other")
    assert Secret(HIDDEN) != HIDDEN
    assert len(Secret(HIDDEN)) == 20
    assert Secret(HIDDEN).reveal() == HIDDEN

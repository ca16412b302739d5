"""The codec: canonical and typed; its errors show no values."""

import os
import subprocess
import sys
from types import MappingProxyType
from typing import Any

import immutables
import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from keyhouse.base.secret import Secret
from keyhouse.journal import Codec, UnencodableError
from keyhouse.journal.chain import UndecodableError


class Stored(msgspec.Struct, frozen=True, tag="stored"):
    name: str
    value: Secret
    labels: dict[str, int] = {}


class Removed(msgspec.Struct, frozen=True, tag="removed"):
    names: tuple[str, ...]
    rest: immutables.Map[str, Stored] = immutables.Map()


CODEC = Codec[Stored | Removed](Stored | Removed, name="event")
STORED = st.builds(
    Stored,
    name=st.text(max_size=8),
    value=st.binary(max_size=40).map(Secret),
    labels=st.dictionaries(st.text(max_size=4), st.integers(-(2**63), 2**63 - 1), max_size=4),
)
REMOVED = st.builds(
    Removed,
    names=st.lists(st.text(max_size=4), max_size=3).map(tuple),
    rest=st.dictionaries(st.text(max_size=4), STORED, max_size=4).map(immutables.Map),
)


@settings(max_examples=100)
@given(st.one_of(STORED, REMOVED))
def test_what_is_encoded_comes_back(event: Stored | Removed) -> None:
    encoded = CODEC.encode_checked(event)
    assert CODEC.decode(encoded) == event
    assert CODEC.encode(CODEC.decode(encoded)) == encoded


@settings(max_examples=100)
@given(
    st.dictionaries(st.text(max_size=4), st.integers(0, 9), min_size=2, max_size=6), st.randoms()
)
def test_order_of_insertion_does_not_show(labels: dict[str, int], random: Any) -> None:
    shuffled = list(labels.items())
    random.shuffle(shuffled)
    one = Stored("n", Secret(b"v"), labels)
    other = Stored("n", Secret(b"v"), dict(shuffled))
    assert CODEC.encode(one) == CODEC.encode(other)


@settings(max_examples=200)
@given(st.binary(max_size=60))
def test_arbitrary_bytes_raise_only_our_error(raw: bytes) -> None:
    try:
        CODEC.decode(raw)
    except UndecodableError:
        return


def test_trailing_bytes_are_refused() -> None:
    with pytest.raises(UndecodableError):
        CODEC.decode(CODEC.encode(Removed(())) + b"\0")


def test_errors_echo_nothing() -> None:
    raw = msgspec.msgpack.encode({"type": "stored", "name": 1, "value": b"canary"})
    with pytest.raises(UndecodableError) as caught:
        CODEC.decode(raw)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize(
    "event",
    [
        Stored("n", b"plain bytes, no Secret"),  # type: ignore[arg-type]
        Stored(7, Secret(b"v")),  # type: ignore[arg-type]
        Removed(["a list, no tuple"]),  # type: ignore[arg-type]
        Removed((), MappingProxyType({})),  # type: ignore[arg-type]
        object(),
    ],
    ids=["bytes", "number", "list", "mapping", "object"],
)
def test_a_value_that_would_not_come_back_is_not_encoded(event: Any) -> None:
    with pytest.raises(UnencodableError):
        CODEC.encode_checked(event)


SCRIPT = """
import immutables, msgspec
from keyhouse.journal import Codec
from keyhouse.base.secret import Secret
class Value(msgspec.Struct, frozen=True):
    names: frozenset[str]
    secrets: immutables.Map[str, Secret]
names = [f"name-{n}" for n in range(50)]
value = Value(frozenset(names), immutables.Map({n: Secret(n.encode()) for n in set(names)}))
print(Codec[Value](Value).encode_checked(value).hex())
"""


def test_another_hash_seed_gives_the_same_bytes() -> None:
    encodings = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
        ).stdout
        for seed in ("0", "1", "77")
    }
    assert len(encodings) == 1
    assert encodings != {b""}

"""Printed values contain no binary data: short bytes appear in hex, long bytes as a digest."""

import hashlib
from collections.abc import Iterator
from typing import Any, get_args, get_type_hints

import msgspec
import pytest
from rich.pretty import pretty_repr

import keyhouse.client
import keyhouse.testing
from keyhouse.base.hex_repr import Readable
from keyhouse.base.secret import Secret
from keyhouse.client import SecretObject, UpdateAnswer

LONG = b"\xff" * 65


class Example(Readable, frozen=True):
    value: Any


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (b"\x00\xff", "<00ff>"),
        (b"", "<0 bytes>"),
        (LONG, f"<65 bytes, SHA-256 {hashlib.sha256(LONG).hexdigest()}>"),
        ({"key": (b"\x01",)}, "{'key': (<01>,)}"),
        ([b"\x02", 3, None], "[<02>, 3, None]"),
        ("text", "'text'"),
        ("t" * 1001, "<1001 characters>"),
        (Secret(b"CANARY"), "<Secret of 6 bytes>"),
    ],
)
def test_a_value_is_shown(value: object, shown: str) -> None:
    assert repr(Example(value)) == f"Example(value={shown})"
    assert shown in pretty_repr(Example(value), max_width=200)


def test_answers_show_no_binary() -> None:
    answer = UpdateAnswer(missing_acknowledgments=0, recovery_secrets={"rk": b"\x80" * 512})
    secret = SecretObject(type="cert-rsa", cert=b"\x80" * 300, private=Secret(b"CANARY"))

    assert "\\x" not in repr((answer, secret))
    assert "CANARY" not in repr((answer, secret))
    assert "'rk': <512 bytes, SHA-256 " in repr(answer)


def with_bytes() -> Iterator[type]:
    """Yield the public types with a field of plain bytes."""
    for package in (keyhouse.client, keyhouse.testing):
        for name in package.__all__:
            kind = getattr(package, name)
            if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
                hints = get_type_hints(kind, include_extras=True).values()
                if any(_holds_bytes(hint) for hint in hints):
                    yield kind


def _holds_bytes(hint: object) -> bool:
    return hint is bytes or any(map(_holds_bytes, get_args(hint)))


def test_every_public_type_with_bytes_is_readable() -> None:
    kinds = set(with_bytes()) - {keyhouse.testing.Marble}  # a failed test shows the values

    assert {kind for kind in kinds if not issubclass(kind, Readable)} == set()
    assert len(kinds) > 8

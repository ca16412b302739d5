"""Derived keys: each key belongs to one marble."""

from uuid import UUID

import pytest

from keyhouse.authority import derive_marble_key
from keyhouse.base.errors import InvalidError
from keyhouse.base.secret import Secret

ROOT = Secret(bytes(range(32)))
MARBLE = UUID("11111111-2222-3333-4444-555555555555")


def _key(
    marble: UUID = MARBLE,
    marble_type: str = "storage",
    name: str = "diskKey",
    bits: int = 256,
    *,
    bind: bool = True,
) -> str:
    return (
        derive_marble_key(
            ROOT,
            marble=marble,
            marble_type=marble_type,
            secret_name=name,
            bits=bits,
            bind_to_type=bind,
        )
        .reveal()
        .hex()
    )


def test_vectors_of_the_interface() -> None:
    assert _key() == "5533ec5608eed2b8949652a07310145a8b0795009d4b97ca8236a068f702ba63"
    assert _key(bits=128, bind=False) == "6c917c6577fe479159e7f04702b44663"


def test_any_spelling_of_the_uuid_gives_the_same_key() -> None:
    marble = UUID("{AABBCCDD-2222-3333-4444-555555555555}")
    assert _key(marble) == _key(UUID("aabbccdd222233334444555555555555"))


def test_every_input_makes_another_key() -> None:
    keys = {
        _key(),
        _key(marble=UUID(int=1)),
        _key(marble_type="web"),
        _key(name="diskKez"),
        _key(bind=False),
    }
    assert len(keys) == 5


def test_longest_key_has_8160_bytes() -> None:
    assert len(_key(bits=65280)) == 2 * 8160


@pytest.mark.parametrize("bits", [-8, 0, 7, 65288])
def test_impossible_size_is_refused(bits: int) -> None:
    with pytest.raises(InvalidError, match="Size"):
        _key(bits=bits)


def test_nil_uuid_and_empty_type_are_refused_together() -> None:
    with pytest.raises(InvalidError) as refusal:
        _key(marble=UUID(int=0), marble_type="")
    assert [problem.at for problem in refusal.value.problems] == ["MarbleType", "UUID"]

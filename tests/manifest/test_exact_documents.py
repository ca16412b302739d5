"""What msgspec reads of a manifest is what our own reader, which takes more, reads of it."""

import json
from collections.abc import Callable, Iterator
from typing import Any, Final, get_args

import msgspec
import pytest
from hypothesis import given, settings, strategies as st
from support.samples.manifests import Document, full, places_in, sample

from keyhouse.manifest.convert import _exact_decoder, decode
from keyhouse.manifest.document import ManifestDocument
from keyhouse.wire.json_decoder import decode as decode_json

_VALUES = st.sampled_from(
    [None, 0, 1, -1, 2**63, 2**64 - 1, 2**64, 1.0, 1e3, "", "a", "QQ==", "QQ"]
)
_ANY = _VALUES | st.sampled_from(
    ["QQ==\n", "QR==", [], [65], ["a"], {}, {"Data": "a"}, {"CommonName": "a"}, True, False]
)

# No check lets these pass, so no stored manifest has them: bits behind the end of bytes, which
# msgspec drops, and integers that are too large for a field whose type says no bounds.
_NEVER_CHECKED: Final = ("QR==", 2**63, 2**64 - 1, 2**64)


def _structs(hint: Any) -> Iterator[type[msgspec.Struct]]:
    """Yield each struct that a value of type ``hint`` may hold."""
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        yield hint
        for field in msgspec.structs.fields(hint):
            yield from _structs(field.type)
    for part in get_args(hint):
        yield from _structs(part)


def test_every_part_of_a_document_refuses_names_that_it_does_not_know() -> None:
    # msgspec ignores them by default: so it would a name in another case, which has a meaning.
    kinds = set(_structs(ManifestDocument))
    assert len(kinds) > 20
    assert [kind for kind in kinds if not kind.__struct_config__.forbid_unknown_fields] == []


def test_null_is_the_default_of_every_field_that_may_be_null() -> None:
    for kind in _structs(ManifestDocument):
        for field in msgspec.structs.fields(kind):
            if type(None) in get_args(field.type):
                assert field.default is None, (kind, field.name)


@pytest.mark.parametrize("name", ["small", "full"])
def test_samples_are_read_by_msgspec(name: str) -> None:
    assert _exact_decoder().decode(sample(name)) == decode_json(sample(name), ManifestDocument)


@given(st.integers(0, 10_000), _ANY)
@settings(max_examples=300)
def test_what_msgspec_reads_is_read_alike_by_our_own_reader(number: int, value: object) -> None:
    document = full()
    places = places_in(document)
    container, key = places[number % len(places)]
    container[key] = value
    raw = json.dumps(document).encode()
    try:
        exact = _exact_decoder().decode(raw)
    except (msgspec.MsgspecError, ValueError):
        return
    if value in _NEVER_CHECKED:
        return
    assert exact == decode_json(raw, ManifestDocument)


def _lower_case(document: Document) -> None:
    document["secrets"] = document.pop("Secrets")


def _null(document: Document) -> None:
    document["Marbles"]["storage"]["MaxActivations"] = None


def _numbers(document: Document) -> None:
    document["Infrastructures"]["cloudA"]["RootCA"] = [1, 2, 3]


@pytest.mark.parametrize("edit", [_lower_case, _null, _numbers])
def test_what_msgspec_refuses_is_read_by_our_own_reader(edit: Callable[[Document], None]) -> None:
    document = full()
    edit(document)
    raw = json.dumps(document).encode()
    with pytest.raises(msgspec.ValidationError):
        _exact_decoder().decode(raw)
    assert decode(raw).secrets == decode(sample("full")).secrets

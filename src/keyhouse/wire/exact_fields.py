"""Identity fields that are compared byte by byte, or not given and not compared.

The values are hex text in any case; "" means not given. ``sizes`` maps the names of these fields in
a manifest to their numbers of bytes.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final, TypeVar

import msgspec

from keyhouse.base.errors import Problem

T = TypeVar("T", bound=msgspec.Struct)

_HEX: Final = re.compile(r"[0-9a-fA-F]*", re.ASCII)


class Difference(msgspec.Struct, frozen=True):
    """A field with an unexpected value, by its name in a manifest. Bytes are in hex."""

    field: str
    found: str
    wanted: str


def in_lower_case(identity: T, sizes: Mapping[str, int]) -> T:
    """Return ``identity`` in lower case, the form of all comparisons."""
    values = {name: value.lower() for _, name, value in _given(identity, sizes)}
    return msgspec.structs.replace(identity, **values)


def problems_of_fields(identity: msgspec.Struct, sizes: Mapping[str, int]) -> Iterator[Problem]:
    """Yield a problem for each field that is not hex of its size."""
    for field, _, value in _given(identity, sizes):
        digits = 2 * sizes[field]
        if not (len(value) == digits and _HEX.fullmatch(value)):
            yield Problem(
                field, f"is not {digits} hex digits", "write hex without 0x and without spaces"
            )


def differences(found: T, wanted: T, sizes: Mapping[str, int]) -> Iterator[Difference]:
    """Yield each field given in ``wanted`` with a different value in ``found``, in order."""
    for field, name, want in _given(wanted, sizes):
        has = getattr(found, name)
        if want.lower() != has:
            yield Difference(field, has, want)


def _given(identity: msgspec.Struct, sizes: Mapping[str, int]) -> Iterator[tuple[str, str, str]]:
    """Yield name in a manifest, attribute and value of each given field."""
    for each in msgspec.structs.fields(identity):
        value = getattr(identity, each.name)
        if value and each.encode_name in sizes:
            yield each.encode_name, each.name, value

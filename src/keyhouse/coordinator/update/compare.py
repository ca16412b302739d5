"""Compares parts of two manifests, and describes a change as text."""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple, TypeVar

import msgspec

from keyhouse.base.printable import quoted
from keyhouse.wire.plan import Effect, PlanChange
from keyhouse.wire.secret_types import manifest_name

T = TypeVar("T")

_NAMED = 20
"""A sentence lists at most this number of names; the change itself has all names."""


class FieldChange(NamedTuple):
    """A field with different values, by its name in the manifest."""

    field: str
    before: Any
    after: Any


def differing(
    old: Mapping[str, T], new: Mapping[str, T]
) -> Iterator[tuple[str, T | None, T | None]]:
    """Yield each name with its values in ``old`` and ``new`` if they differ, sorted by name.

    None stands for a missing value.
    """
    for name in sorted(old.keys() | new.keys()):
        before, after = old.get(name), new.get(name)
        if before != after:
            yield name, before, after


def fields_that_differ(before: msgspec.Struct, after: msgspec.Struct) -> Iterator[FieldChange]:
    """Yield the fields with different values in two structs of the same type, in their order."""
    for name, manifest_field in _manifest_fields(type(before)):
        was, becomes = getattr(before, name), getattr(after, name)
        if was != becomes:
            yield FieldChange(manifest_field, was, becomes)


@cache
def _manifest_fields(kind: type[msgspec.Struct]) -> tuple[tuple[str, str], ...]:
    """Return each attribute of the struct ``kind``, with the name of its field in a manifest."""
    fields = zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True)
    return tuple(
        (name, manifest_name(name) if encoded == name else encoded) for name, encoded in fields
    )


def change(
    section: str,
    what: Effect,
    name: str,
    text: str,
    *,
    field: str = "",
    before: Any = "",
    after: Any = "",
    names: tuple[str, ...] = (),
) -> PlanChange:
    """Return a change with the effect ``what`` on the item ``name`` of ``section``.

    ``text`` describes the change in a sentence. ``field``: the changed field of the item, with the
    values ``before`` and ``after``. ``names``: the affected names, such as secrets.
    """
    return PlanChange(
        section=section,
        what=what.value,
        name=name,
        field=field,
        before=as_text(before),
        after=as_text(after),
        names=names,
        text=text,
    )


def as_text(value: Any) -> str:
    """Return a value as text: empty for None, ``true``, digits, or a list with commas."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return str(value)


def in_words(value: Any) -> str:
    """Return a value for a sentence: text and lists are quoted, numbers are not."""
    if isinstance(value, tuple):
        return listed(tuple(map(str, value))) or "none"
    return quoted(value) if isinstance(value, str) else as_text(value)


def listed(names: tuple[str, ...]) -> str:
    """Return names for a sentence: quoted, at most 20, and the number of further names."""
    text = ", ".join(quoted(name) for name in names[:_NAMED])
    more = len(names) - _NAMED
    return f"{text} and {more} more" if more > 0 else text

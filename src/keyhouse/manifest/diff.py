"""The differences of two manifests by meaning: sections and fields, not text.

Spellings with the same meaning are equal: field names in another case, an explicit default, hex in
capitals, and another order of an unordered list. Values of secrets are never shown.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Literal

import msgspec

from keyhouse.base.secret import Secret
from keyhouse.manifest.model import (
    EncodedContent,
    HolderPublicKey,
    Manifest,
    MarbleDefinition,
    Role,
    User,
)
from keyhouse.wire.package import Package
from keyhouse.wire.secret_types import manifest_name


class Change(msgspec.Struct, frozen=True):
    """A difference of two manifests. ``old`` and ``new`` can be encoded as JSON; None: absent.

    ``name`` names the element of ``section``, such as a marble type; "" in ``Config``. ``field``
    has the steps to the difference inside this element. Without steps, the whole element was added
    or removed. Bytes are shown by size and SHA-256, secrets by their size.
    """

    kind: Literal["added", "removed", "changed"]
    section: str
    name: str
    field: tuple[str, ...]
    old: Any
    new: Any


def diff(old: Manifest, new: Manifest) -> tuple[Change, ...]:
    """Return the changes from ``old`` to ``new``, in the order of sections, then of names."""
    found: list[Change] = []
    for section, (before, after) in _sections(old, new).items():
        if section == "Config":
            found += _changes(section, "", _inside(before, after))
            continue
        for name in sorted(before.keys() | after.keys()):
            pair = (before.get(name), after.get(name))
            found += _changes(section, name, _between(*pair))
    return tuple(found)


_Step = tuple[tuple[str, ...], Any, Any]
"""Steps to a difference, and both values; None for an absent value."""

_UNORDERED: Final[Mapping[type, frozenset[str]]] = {
    Package: frozenset({"accepted_tcb_statuses", "accepted_advisories"}),
    MarbleDefinition: frozenset({"tls"}),
    User: frozenset({"roles"}),
    Role: frozenset({"resource_names", "actions"}),
}
"""Lists without a meaning of order or repetition."""


def _sections(old: Manifest, new: Manifest) -> dict[str, tuple[Any, Any]]:
    names = [name for name in Manifest.__struct_fields__ if name != "raw"]
    return {manifest_name(name): (getattr(old, name), getattr(new, name)) for name in names}


def _changes(section: str, name: str, steps: Iterable[_Step]) -> Iterator[Change]:
    for field, before, after in steps:
        kind: Literal["added", "removed", "changed"] = (
            "added" if before is None else "removed" if after is None else "changed"
        )
        shown = (_json_value(before), _json_value(after))
        if shown[0] == shown[1] and isinstance(shown[1], str):  # only digests or sizes are shown
            shown = (shown[0], f"another {shown[1]}")
        yield Change(kind, section, name, field, *shown)


def _between(old: Any, new: Any) -> Iterator[_Step]:
    """Yield the differences of two values. An added or removed value is a single difference."""
    old, new = _meant(old), _meant(new)
    if old == new:
        return
    if type(old) is type(new) and isinstance(new, msgspec.Struct) and not _is_leaf(new):
        yield from _inside(old, new)
    elif isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            for field, before, after in _between(old.get(key), new.get(key)):
                yield (key, *field), before, after
    else:
        yield (), old, new


def _inside(old: Any, new: Any) -> Iterator[_Step]:
    unordered = _UNORDERED.get(type(new), frozenset())
    for field in msgspec.structs.fields(new):
        before, after = getattr(old, field.name), getattr(new, field.name)
        if field.name in unordered:
            before, after = tuple(sorted(set(before))), tuple(sorted(set(after)))
        for inner, one, other in _between(before, after):
            yield (_spelled(field), *inner), one, other


def _is_leaf(value: msgspec.Struct) -> bool:
    return isinstance(value, HolderPublicKey)


def _meant(value: Any) -> Any:
    """Return ``value``; a package with its statuses and advisories as the verifier applies them.

    An explicit default then equals an absent list. Values of other types are not changed.
    """
    if not isinstance(value, Package):
        return value
    statuses = {"UpToDate", *(value.accepted_tcb_statuses or ("SWHardeningNeeded",))}
    return msgspec.structs.replace(
        value,
        accepted_tcb_statuses=tuple(sorted(statuses)),
        accepted_advisories=tuple(sorted(map(str.upper, value.accepted_advisories))),
    )


def _spelled(field: msgspec.structs.FieldInfo) -> str:
    if field.name == "cert_der":
        return "Cert"  # the other form of the same field
    return manifest_name(field.name) if field.encode_name == field.name else field.encode_name


def _json_value(value: Any) -> Any:
    """Return ``value`` as a value for JSON. A Struct becomes an object without default values."""
    if isinstance(value, EncodedContent) and not value.no_templates:
        return _json_content(value.data)
    if isinstance(value, Secret | bytes | HolderPublicKey):
        return _digest(value)
    if isinstance(value, msgspec.Struct):
        return {
            _spelled(field): _json_value(getattr(value, field.name))
            for field in msgspec.structs.fields(value)
            if field.required or getattr(value, field.name) != _default(field)
        }
    if isinstance(value, dict):
        return {name: _json_value(item) for name, item in value.items()}
    return [_json_value(item) for item in value] if isinstance(value, tuple) else value


def _digest(value: Secret | bytes | HolderPublicKey) -> str:
    if isinstance(value, Secret):
        return f"secret of {len(value.reveal())} bytes"
    if isinstance(value, HolderPublicKey):
        return f"key, SHA-256 {hashlib.sha256(value.public_key).hexdigest()}"
    return f"{len(value)} bytes, SHA-256 {hashlib.sha256(value).hexdigest()}"


def _json_content(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        return _digest(content)


def _default(field: msgspec.structs.FieldInfo) -> Any:
    if field.default is not msgspec.NODEFAULT:
        return field.default
    return {} if field.default_factory is msgspec.NODEFAULT else field.default_factory()

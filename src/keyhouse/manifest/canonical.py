"""The one JSON text of a value: what a manifest in YAML is uploaded as, byte for byte."""

import json

__all__ = ["canonical_json"]


def canonical_json(value: object) -> bytes:
    """Return ``value`` (None, bool, int, str, list, dict) as JSON in UTF-8, in one way only.

    No white space, no line end; members sorted by their names' UTF-16 code units; in strings only
    the double quote, the backslash and control characters escaped. That is RFC 8785, with integers
    written out as they are: those of a manifest have up to 64 bits.
    """
    return json.dumps(_sorted(value), ensure_ascii=False, separators=(",", ":")).encode()


def _sorted(value: object) -> object:
    if isinstance(value, dict):
        names = sorted(value, key=lambda name: str(name).encode("utf-16-be"))
        return {name: _sorted(value[name]) for name in names}
    return [_sorted(item) for item in value] if isinstance(value, list) else value

"""JSON for the screen: long keys and certificates are cut, with a mark at each cut."""

import json
from typing import Final

__all__ = ["pretty", "shortened"]

_LONGEST: Final = 60  # characters of an uncut encoded string
_KEPT: Final = 32  # characters at the begin of a cut string
_MOST: Final = 6  # entries of an uncut list
_FIRST, _LAST = 1, 3
_LINE: Final = 92


def shortened(value: object) -> object:
    """Return ``value`` with long encoded strings and long lists cut. Prose stays complete.

    A JSON object in a string becomes an object.
    """
    match value:
        case str():
            return _embedded(value) or _cut(value)
        case dict():
            return {name: shortened(inner) for name, inner in value.items()}
        case list() if len(value) > _MOST:
            left_out = f"... {len(value) - _FIRST - _LAST:,} more ..."
            return [*map(shortened, value[:_FIRST]), left_out, *map(shortened, value[-_LAST:])]
        case list():
            return [shortened(inner) for inner in value]
        case _:
            return value


def pretty(value: object, indent: int = 0) -> str:
    """Return JSON text. An object or a list is on one line if it fits."""
    compact = json.dumps(value, ensure_ascii=False)
    if len(compact) + indent <= _LINE or not isinstance(value, dict | list):
        return compact
    inside = " " * (indent + 2)
    if isinstance(value, dict):
        opening, closing = "{", "}"
        parts = [f"{json.dumps(name)}: {pretty(v, indent + 2)}" for name, v in value.items()]
    else:
        opening, closing = "[", "]"
        parts = [pretty(v, indent + 2) for v in value]
    lines = f",\n{inside}".join(parts)
    return f"{opening}\n{inside}{lines}\n{' ' * indent}{closing}"


def _embedded(text: str) -> object:
    if not text.startswith("{"):
        return None
    try:
        return json.loads(text)
    except ValueError:
        return None


def _cut(text: str) -> str:
    is_prose = " " in text and "\n" not in text
    if len(text) <= _LONGEST or is_prose:
        return text
    return f"{text[:_KEPT].strip()}... ({len(text):,} characters)".replace("\n", " ")

"""JSON fit to be looked at: long keys and certificates cut, with a mark where."""

import json
from typing import Final

__all__ = ["pretty", "shortened"]

_LONGEST: Final = 60  # characters of a string that is no prose
_KEPT: Final = 32
_MOST: Final = 6  # entries of a list
_FIRST, _LAST = 1, 3
_LINE: Final = 92


def shortened(value: object) -> object:
    """Return ``value`` with long encoded strings and long lists cut. Prose stays whole.

    A string that holds a JSON object becomes that object.
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
    """Return JSON in which everything that fits on a line is on one."""
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

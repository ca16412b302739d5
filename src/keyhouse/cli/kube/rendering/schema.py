"""Check values against the JSON schema of the chart, with errors for people.

The check knows the keywords that ``values.schema.json`` uses (JSON Schema draft 7), and refuses a
schema with a further keyword. A test compares its verdicts with those of a library.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from keyhouse.base.errors import BrokenError, Problem
from keyhouse.manifest.source.source_map import below
from keyhouse.wire.json_decoder import nearest

_IGNORED: Final = frozenset({"$schema", "description", "definitions"})
_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "array": (list,),
    "boolean": (bool,),
    "integer": (int,),
    "object": (dict,),
    "string": (str,),
}
_WORDS: Final[Mapping[str, str]] = {
    "array": "a list",
    "boolean": "true or false",
    "integer": "a whole number",
    "object": "an object",
    "string": "a text",
}

_CORRECT: Final = "correct this value in the file of --values"


class Schema:
    """The JSON schema of the chart's values. ``root`` is the decoded schema."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root

    def problems(self, values: Any) -> tuple[Problem, ...]:
        """Return the problems of the chart's ``values``, sorted by the path of the value."""
        return tuple(sorted(self._problems(self._root, values, "")))

    def _problems(self, schema: Mapping[str, Any], value: Any, at: str) -> Iterator[Problem]:
        for keyword, rule in schema.items():
            if keyword not in _IGNORED:
                yield from self._apply(keyword, rule, schema, value, at)

    def _apply(
        self, keyword: str, rule: Any, schema: Mapping[str, Any], value: Any, at: str
    ) -> Iterator[Problem]:
        if keyword in _OF_OBJECTS:
            if isinstance(value, dict):
                yield from self._of_object(keyword, rule, schema, value, at)
        elif keyword in _OF_SCHEMAS:
            yield from self._of_schema(keyword, rule, value, at)
        elif keyword in _OF_VALUES:
            yield from _OF_VALUES[keyword](rule, value, at)
        else:
            raise BrokenError(f"the schema of the chart has an unknown keyword: {keyword}")

    def _of_schema(self, keyword: str, rule: Any, value: Any, at: str) -> Iterator[Problem]:
        match keyword:
            case "$ref":
                yield from self._problems(self._definition(rule), value, at)
            case "allOf":
                for each in rule:
                    yield from self._problems(each, value, at)
            case "items":
                for number, each in enumerate(value if isinstance(value, list) else ()):
                    yield from self._problems(rule, each, below(at, number))
            case _:
                if not list(self._problems(rule, value, at)):
                    yield Problem(
                        at, "is reserved", "remove the value: the chart itself sets this value"
                    )

    def _of_object(
        self, keyword: str, rule: Any, schema: Mapping[str, Any], value: dict[str, Any], at: str
    ) -> Iterator[Problem]:
        known = schema.get("properties", {})
        match keyword:
            case "required":
                for name in rule:
                    if name not in value:
                        yield Problem(below(at, name), "is missing", "add this value")
            case "properties":
                for name in rule.keys() & value.keys():
                    yield from self._problems(rule[name], value[name], below(at, name))
            case "propertyNames":
                for name in value:
                    yield from self._problems(rule, name, below(at, name))
            case _:
                for name in value.keys() - known.keys():
                    if rule is False:
                        yield Problem(below(at, name), "is unknown", nearest(name, tuple(known)))
                    else:
                        yield from self._problems(rule, value[name], below(at, name))

    def _definition(self, reference: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self._root["definitions"][reference.rpartition("/")[2]]
        return found


def _of_type(rule: str | list[str], value: Any, at: str) -> Iterator[Problem]:
    names = [rule] if isinstance(rule, str) else rule
    is_bool = isinstance(value, bool)
    if not any(
        isinstance(value, _TYPES[name]) and is_bool == (name == "boolean") for name in names
    ):
        yield Problem(at, f"must be {' or '.join(_WORDS[name] for name in names)}", _CORRECT)


def _of_enum(rule: list[Any], value: Any, at: str) -> Iterator[Problem]:
    if value not in rule:
        yield Problem(at, "is not a known word", f"use {', '.join(map(str, rule))}")


def _of_shortest(rule: int, value: Any, at: str) -> Iterator[Problem]:
    if isinstance(value, str) and len(value) < rule:
        yield Problem(
            at, "must not be empty" if rule == 1 else f"needs {rule} characters", _CORRECT
        )


def _of_longest(rule: int, value: Any, at: str) -> Iterator[Problem]:
    if isinstance(value, str) and len(value) > rule:
        yield Problem(at, f"has {len(value)} characters, must have at most {rule}", _CORRECT)


def _of_pattern(rule: str, value: Any, at: str) -> Iterator[Problem]:
    if isinstance(value, str) and not re.search(rule, value):
        yield Problem(at, "does not have the required form", f"use the form {rule}")


def _of_minimum(rule: int, value: Any, at: str) -> Iterator[Problem]:
    if isinstance(value, int) and not isinstance(value, bool) and value < rule:
        yield Problem(at, f"is {value}, must be at least {rule}", _CORRECT)


def _of_maximum(rule: int, value: Any, at: str) -> Iterator[Problem]:
    if isinstance(value, int) and not isinstance(value, bool) and value > rule:
        yield Problem(at, f"is {value}, must be at most {rule}", _CORRECT)


_OF_OBJECTS: Final = frozenset({"required", "properties", "additionalProperties", "propertyNames"})
_OF_SCHEMAS: Final = frozenset({"$ref", "allOf", "items", "not"})
_OF_VALUES: Final[Mapping[str, Callable[[Any, Any, str], Iterator[Problem]]]] = {
    "enum": _of_enum,
    "maxLength": _of_longest,
    "maximum": _of_maximum,
    "minLength": _of_shortest,
    "minimum": _of_minimum,
    "pattern": _of_pattern,
    "type": _of_type,
}

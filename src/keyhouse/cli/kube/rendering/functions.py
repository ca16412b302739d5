"""The functions of helm's templates that the chart uses.

Sources: https://helm.sh/docs/chart_template_guide/function_list/ and
https://pkg.go.dev/text/template#hdr-Functions. The keys of ``FUNCTIONS`` are names of helm.
"""

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from keyhouse.base.errors import RefusedError


class ValuesRefusedError(RefusedError):
    """The values of the chart contradict each other, or do not match its schema."""

    code = "values-refused"


def printed(value: Any) -> str:
    """Return the text for ``value`` in the output of a template."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int):
        return str(value)
    return as_json(value)


def as_json(value: Any) -> str:
    """Return ``value`` as JSON on one line, which is YAML, too."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def to_yaml(value: Any) -> str:
    """Return ``value`` as YAML: each member of the outermost object or list is on its own line.

    So a template can indent the lines below a name, or add members of the same object.
    """
    if isinstance(value, Mapping) and value:
        return "\n".join(f"{as_json(name)}: {as_json(value[name])}" for name in sorted(value))
    if isinstance(value, list) and value:
        return "\n".join(f"- {as_json(each)}" for each in value)
    return as_json(value)


def to_pretty_json(value: Any) -> str:
    """Return ``value`` as JSON with an indentation of two spaces, as Go writes JSON."""
    text = json.dumps(value, ensure_ascii=False, sort_keys=True, indent=2)
    for mark in "&<>":
        text = text.replace(mark, f"\\u{ord(mark):04x}")
    return text


def _quote(value: Any) -> str:
    return json.dumps(printed(value), ensure_ascii=False)


def _nindent(count: int, text: str) -> str:
    return "\n" + "\n".join(" " * count + line for line in text.split("\n"))


def _printf(form: str, *values: Any) -> str:
    waiting = iter(values)
    return re.sub(r"%[sdv]", lambda _: printed(next(waiting)), form)


def _default(fallback: Any, value: Any) -> Any:
    return value or fallback


def _fail(text: str) -> None:
    raise ValuesRefusedError(text)


def _integer(value: Any) -> int:
    return int(value or 0)


def merge(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object with the members of both objects, merged at every level.

    For a member of both objects, the value in ``first`` has precedence.
    """
    made = {**second, **first}
    for name in first.keys() & second.keys():
        if isinstance(first[name], Mapping) and isinstance(second[name], Mapping):
            made[name] = merge(first[name], second[name])
    return made


def _dict(*members: Any) -> dict[str, Any]:
    return dict(zip(members[::2], members[1::2], strict=True))


FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "add": lambda *values: sum(map(_integer, values)),
    "contains": lambda part, text: part in text,
    "default": _default,
    "dict": _dict,
    "eq": lambda first, second: first == second,
    "fail": _fail,
    "gt": lambda first, second: first > second,
    "has": lambda item, values: item in values,
    "hasKey": lambda value, name: name in value,
    "index": lambda value, name: value.get(name),
    "int": _integer,
    "join": lambda mark, values: mark.join(map(printed, values)),
    "list": lambda *values: list(values),
    "merge": merge,
    "ne": lambda first, second: first != second,
    "nindent": _nindent,
    "not": lambda value: not value,
    "printf": _printf,
    "quote": _quote,
    "replace": lambda old, new, text: text.replace(old, new),
    "sha256sum": lambda text: hashlib.sha256(text.encode()).hexdigest(),
    "sub": lambda first, second: _integer(first) - _integer(second),
    "ternary": lambda first, second, condition: first if condition else second,
    "toJson": as_json,
    "toPrettyJson": to_pretty_json,
    "toYaml": to_yaml,
    "trim": lambda text: text.strip(),
    "trimSuffix": lambda suffix, text: text.removesuffix(suffix),
    "trunc": lambda count, text: text[:count],
    "until": lambda count: list(range(count)),
}

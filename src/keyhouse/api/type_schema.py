"""JSON Schemas of wire types, for the description of the interface.

msgspec's own generator stops at integers of 64 bits without sign, which the interface has.
"""

import inspect
import types
from enum import StrEnum
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

import msgspec
from msgspec import UnsetType

from keyhouse.base.secret import Secret

__all__ = ["Schema", "schema_of"]

Schema = dict[str, Any]

_BASE64: Final = {"type": "string", "contentEncoding": "base64"}
_PLAIN: Final[dict[Any, Schema]] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    bytes: _BASE64,
    Secret: _BASE64,
    type(None): {"type": "null"},
}


def schema_of(kind: Any, components: dict[str, Schema]) -> Schema:
    """Return the schema of ``kind``. Structs are added to ``components`` and referred to."""
    if kind in _PLAIN:
        return dict(_PLAIN[kind])
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return {"type": "string", "enum": [member.value for member in kind]}
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        if kind.__name__ not in components:
            components[kind.__name__] = {}  # holds the place, should it contain itself
            components[kind.__name__].update(_object(kind, components))
        return {"$ref": f"#/components/schemas/{kind.__name__}"}
    return _generic(kind, components)


def _generic(kind: Any, components: dict[str, Schema]) -> Schema:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return {"type": "integer", "minimum": arguments[1].ge, "maximum": arguments[1].le}
    if origin is Literal:
        return {"enum": [*arguments]}
    if origin in {list, tuple}:
        return {"type": "array", "items": schema_of(arguments[0], components)}
    if origin is dict:
        return {"type": "object", "additionalProperties": schema_of(arguments[1], components)}
    if origin in {Union, types.UnionType}:
        options = [option for option in arguments if option is not UnsetType]
        made = [schema_of(option, components) for option in options]
        return made[0] if len(made) == 1 else {"anyOf": made}
    raise TypeError(f"no JSON Schema for {kind!r}")


def _object(kind: type[msgspec.Struct], components: dict[str, Schema]) -> Schema:
    fields = msgspec.structs.fields(kind)
    schema: Schema = {
        "description": _readable(inspect.getdoc(kind) or ""),
        "type": "object",
        "properties": {field.encode_name: schema_of(field.type, components) for field in fields},
    }
    required = [field.encode_name for field in fields if field.required]
    return {**schema, "required": required} if required else schema


def _readable(docstring: str) -> str:
    """Return ``docstring`` as Markdown, each paragraph on one line."""
    paragraphs = docstring.replace("``", "`").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)

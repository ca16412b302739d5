"""Generates JSON Schemas of wire types for the description of the interface.

msgspec's own generator fails on unsigned 64-bit integers; the interface has such integers. The
generator also marks fields with a default as optional, even in answers with all fields.
"""

import inspect
import types
from typing import Annotated, Any, Final, Union, get_args, get_origin

import msgspec

from keyhouse.base.secret import Secret
from keyhouse.wire import client_api
from keyhouse.wire.field_presence import OneOf, Sent
from keyhouse.wire.json_decoder import bounds_of

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
_COMPONENTS: Final[dict[type, str]] = {
    client_api.Activation: "ActivationEntry",
    client_api.Activations: "ActivationsData",
    client_api.Counters: "CountersData",
    client_api.Offer: "RecoveryKeyData",
    client_api.Pending: "PendingData",
    client_api.Progress: "RecoverData",
    client_api.SecretObject: "SecretData",
    client_api.SignedQuote: "SignQuoteData",
    client_api.Status: "StatusData",
    client_api.UpdateAnswer: "UpdateData",
}
"""Names of types in the description, if the SDK has different names."""


def schema_of(kind: Any, components: dict[str, Schema], *, sent: bool = False) -> Schema:
    """Return the schema of ``kind``. Structs are added to ``components`` and referenced.

    ``sent``: the form sent by the coordinator, with all fields. Otherwise the form read by the
    coordinator: fields with a default are optional.
    """
    if kind in _PLAIN:
        return dict(_PLAIN[kind])
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        name = _COMPONENTS.get(kind, kind.__name__)
        if name not in components:
            # A placeholder, in case the type contains itself.
            components[name] = {}
            components[name].update(_object(kind, components, sent=sent))
        return {"$ref": f"#/components/schemas/{name}"}
    return _generic(kind, components, sent=sent)


def _generic(kind: Any, components: dict[str, Schema], *, sent: bool) -> Schema:
    def schema(inner: Any) -> Schema:
        return schema_of(inner, components, sent=sent)

    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _noted(schema(arguments[0]), arguments[1:])
    if origin is tuple:
        return {"type": "array", "items": schema(arguments[0])}
    if origin is dict:
        return {"type": "object", "additionalProperties": schema(arguments[1])}
    if origin in {Union, types.UnionType}:
        return {"anyOf": [schema(option) for option in arguments]}
    raise TypeError(f"no JSON Schema for {kind!r}")


def _noted(schema: Schema, notes: tuple[Any, ...]) -> Schema:
    """Return ``schema`` with the constraints in the notes of its type."""
    for note in notes:
        if isinstance(note, msgspec.Meta):
            least, greatest = bounds_of(note)
            schema = {**schema, "minimum": least, "maximum": greatest}
        elif isinstance(note, OneOf):
            schema = {"type": schema["type"], "enum": [*note.values]}
        elif note is Sent.OR_NULL:
            schema = {"anyOf": [schema, _PLAIN[type(None)]]}
    return schema


def _object(kind: type[msgspec.Struct], components: dict[str, Schema], *, sent: bool) -> Schema:
    schema: Schema = {
        "description": _readable(inspect.getdoc(kind) or ""),
        "type": "object",
        "properties": {},
    }
    required = []
    for field in msgspec.structs.fields(kind):
        notes = get_args(field.type) if get_origin(field.type) is Annotated else ()
        if Sent.NEVER in notes:
            continue
        schema["properties"][field.encode_name] = schema_of(field.type, components, sent=sent)
        is_sent = sent and Sent.SOMETIMES not in notes and not kind.__struct_config__.omit_defaults
        if field.required or is_sent:
            required.append(field.encode_name)
    return {**schema, "required": required} if required else schema


def _readable(docstring: str) -> str:
    """Return ``docstring`` as Markdown, each paragraph on one line."""
    paragraphs = docstring.replace("``", "`").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)

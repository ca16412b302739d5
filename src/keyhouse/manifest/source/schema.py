"""The JSON Schema of a manifest, generated from the coordinator's own model.

The coordinator's check knows much more than the schema (names that must exist, certificates,
templates). With two exceptions, the check refuses everything that the schema refuses. The
exceptions are intended, because the schema is for editors:

- The schema requires the declared spelling. The check accepts names of fields, actions, feature
  gates and encodings in any case (ASCII).
- The schema applies the rules of certificate templates also where a template has no effect (a
  secret that is uploaded, or is not a certificate). There the check only warns.

Source: JSON Schema, draft 2020-12; ``docs/reference/manifest.md``, "JSON".
"""

import re
import types
from typing import Annotated, Any, Final, Union, get_args, get_origin

import msgspec

from keyhouse.base.secret import Secret
from keyhouse.manifest.document import ManifestDocument
from keyhouse.manifest.source.schema_fields import DESCRIBED, SchemaField
from keyhouse.manifest.source.schema_rules import Rule
from keyhouse.wire.json_decoder import bounds_of

Schema = dict[str, Any]

_BASE64: Final = {
    "type": "string",
    "pattern": "^[A-Za-z0-9+/\\r\\n]*[=\\r\\n]*$",
    "contentEncoding": "base64",
}
_BYTES: Final = {
    **_BASE64,
    "type": ["string", "array"],
    "items": {"type": "integer", "minimum": 0, "maximum": 255},
}
_PLAIN: Final[dict[Any, Schema]] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1},
    bytes: _BYTES,
    Secret: _BYTES,
    object: {},
}


def manifest_schema() -> Schema:
    """Return the schema (draft 2020-12) as JSON values. Each call returns a new object."""
    definitions: dict[str, Schema] = {}
    _define(ManifestDocument, definitions)
    whole = definitions.pop(_title(ManifestDocument))
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **whole,
        "$defs": dict(sorted(definitions.items())),
    }


def _title(kind: type[msgspec.Struct]) -> str:
    return kind.__name__.removesuffix("Document")


def _define(kind: type[msgspec.Struct], definitions: dict[str, Schema]) -> Schema:
    """Return the schema ``$ref`` to the definition of the type ``kind``.

    Add this definition to ``definitions`` at the first use.
    """
    title = _title(kind)
    if title not in definitions:
        definitions[title] = {}  # a placeholder, in case a struct contains itself
        definitions[title].update(_object(kind, definitions))
    return {"$ref": f"#/$defs/{title}"}


def _object(kind: type[msgspec.Struct], definitions: dict[str, Schema]) -> Schema:
    shape = DESCRIBED[kind]
    properties, required = {}, []
    for field in msgspec.structs.fields(kind):
        described = shape.fields[field.encode_name]
        if field.required or described.given:
            required.append(field.encode_name)
        properties[field.encode_name] = _property(field, described, definitions)
    schema: Schema = {"title": _title(kind), "description": shape.text, "type": "object"}
    schema |= {"properties": properties, "additionalProperties": False}
    if required:
        schema["required"] = required
    return {**schema, **shape.between}


def _property(
    field: msgspec.structs.FieldInfo, described: SchemaField, definitions: dict[str, Schema]
) -> Schema:
    form = {**_form(field.type, described.each, definitions), **described.rule}
    if described.names:
        form["propertyNames"] = described.names
    if not (field.required or described.given):
        form = _or_null(form)
    default = {"default": field.default} if isinstance(field.default, bool | str) else {}
    return {"description": described.text, **form, **(default if field.default != "" else {})}


def _form(hint: Any, each: Rule, definitions: dict[str, Schema]) -> Schema:
    """Return the schema of the JSON values, except null, that a field of the type ``hint`` accepts.

    ``each``: a further rule for each item of a list, or value of a map. ``definitions`` collects
    the definitions of the objects in it.
    """
    if hint in _PLAIN:
        return dict(_PLAIN[hint])
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return _define(hint, definitions)
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        least, greatest = bounds_of(arguments[1])
        return {"type": "integer", "minimum": least, "maximum": greatest}
    if origin is tuple:
        return {"type": "array", "items": _element(arguments[0], each, definitions)}
    if origin is dict:
        element = _element(arguments[1], each, definitions)
        return {"type": "object", "additionalProperties": element}
    if origin in {Union, types.UnionType}:
        return _one_of(arguments, each, definitions)
    raise TypeError(f"no JSON form for {hint!r}")


def _one_of(options: tuple[Any, ...], each: Rule, definitions: dict[str, Schema]) -> Schema:
    given = [option for option in options if option is not type(None)]
    if len(given) == 1:
        return _form(given[0], each, definitions)
    # In a union with an object, only a string is possible: bytes as a list of numbers are not
    # accepted here. An empty string is not accepted either, because the check refuses an empty
    # certificate.
    return {
        "anyOf": [
            {**_BASE64, "minLength": 1} if option is bytes else _form(option, each, definitions)
            for option in given
        ]
    }


def _element(hint: Any, each: Rule, definitions: dict[str, Schema]) -> Schema:
    """Return the schema of an item of a list, or of a value of a map, of the type ``hint``.

    ``each`` and ``definitions``: as in ``_form``. The reader accepts null for the empty value of
    the type. So the schema refuses null where the rules refuse the empty value.
    """
    nested = get_origin(hint) is tuple
    form = {**_form(hint, {"minimum": 0} if nested else {}, definitions), **each}
    if "anyOf" in form or _refuses_empty(form) or _needs_fields(hint):
        return form
    return _or_null(form)


def _refuses_empty(form: Rule) -> bool:
    """Return whether the schema ``form`` of a text or list refuses the empty text or list."""
    pattern = form.get("pattern", "")
    return bool({"minLength", "minItems", "enum"} & form.keys()) or not re.search(pattern, "")


def _needs_fields(hint: Any) -> bool:
    if not (isinstance(hint, type) and issubclass(hint, msgspec.Struct)):
        return False
    required = any(field.required for field in msgspec.structs.fields(hint))
    return required or any(field.given for field in DESCRIBED[hint].fields.values())


def _or_null(form: Schema) -> Schema:
    if "$ref" in form:
        return {"anyOf": [form, {"type": "null"}]}
    if "anyOf" in form:
        return {**form, "anyOf": [*form["anyOf"], {"type": "null"}]}
    if "type" not in form:
        return form  # anything, null as well
    kinds = form["type"] if isinstance(form["type"], list) else [form["type"]]
    words = {"enum": [*form["enum"], None]} if "enum" in form else {}
    return {**form, "type": [*kinds, "null"], **words}

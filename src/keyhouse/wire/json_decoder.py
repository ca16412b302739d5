"""Decodes JSON into typed values: bytes in, a Struct or every problem with its path out.

The type hints of msgspec Structs control the decoder. The converter of each type is prepared once.
A hint has this meaning on the wire (``docs/reference/manifest.md``, "JSON"):

=====================  ==========================================================================
``Struct``             object; field names match in any case, folded in ASCII only (so that the
                       Kelvin sign is not a ``k``); ``null`` and absence mean the field's default
``dict[str, T]``       object; keys are the author's and matched exactly
``tuple[T, ...]``      list
``str``, ``bool``      the same
``UInt64``, ``UInt32`` integer without fraction or exponent, in range; ``int``: signed 64-bit
``bytes``              standard base64 with padding, or a list of numbers 0..255
``Secret``             the same; no error text ever contains a value
``T | None``           ``T``, or ``null``
``str | Struct``       a string or an object; ``bytes | Struct`` likewise
``Sometimes[T]``       ``T``; only encoders use the marker (``keyhouse.wire.field_presence``)
``object``             anything, as returned by ``read_json``
=====================  ==========================================================================

``null`` inside a list or map is the empty value of its type (``""``, 0, an object with all
defaults). For a type without an empty value, ``null`` is a mismatch.
"""

import functools
import types
from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from typing import (
    Annotated,
    Any,
    Final,
    Generic,
    Literal,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
)

import msgspec

from keyhouse.base.errors import MOST, BadRequestError, Problem
from keyhouse.base.printable import at
from keyhouse.base.secret import Secret
from keyhouse.wire.base64_text import decode_base64
from keyhouse.wire.json_parser import INEXACT, Repeated, UnreadableError, read_json

# msgspec checks bounds as signed numbers of 64 bits and refuses larger bounds.
UInt64 = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1, extra_json_schema={"maximum": 2**64 - 1})]
UInt32 = Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]
UInt16 = Annotated[int, msgspec.Meta(ge=0, le=2**16 - 1)]
UInt8 = Annotated[int, msgspec.Meta(ge=0, le=2**8 - 1)]

UNKNOWN: Final = "unknown field"
REPEATED: Final = "is given more than once"
"""Problems of a field's name; all other problems concern its value."""

_COMPARED: Final = 40  # characters of a word; the comparison is quadratic

T = TypeVar("T")


class Read(msgspec.Struct, Generic[T], frozen=True):
    """A decoded value, and the problems of its JSON text that do not prevent decoding.

    ``problems``: unknown fields and repeated keys, sorted by place.
    """

    value: T
    problems: tuple[Problem, ...]


def decode(data: bytes, kind: type[T], *, ignore_rest: bool = False) -> T:
    """Return ``data`` as a ``kind``. Unknown fields are ignored; the last of repeated keys wins.

    With ``ignore_rest``, text after the first JSON value is ignored. Raises ``UnreadableError``
    with every problem. No message contains a value of the input.
    """
    value, findings = _convert(data, kind, _Findings(most_remarks=0), ignore_rest=ignore_rest)
    if findings.mismatches:
        raise UnreadableError(findings.mismatches)
    return value


def read(data: bytes, kind: type[T]) -> Read[T]:
    """Return ``data`` as a ``kind``, with unknown fields and repeated keys as problems.

    Raises ``UnreadableError`` if ``data`` cannot become a ``kind``. The error also lists the
    unknown fields and repeated keys.
    """
    value, findings = _convert(data, kind, _Findings(), ignore_rest=False)
    if findings.mismatches:
        raise UnreadableError([*findings.mismatches, *findings.remarks])
    return Read(value, tuple(sorted(findings.remarks)))


def nearest(word: str, known: tuple[str, ...]) -> str:
    """Return a hint for an unknown ``word``: a similar word of ``known``, or all of ``known``."""
    if close := resembling(word, known):
        return f"did you mean {close}?"
    return f"use one of {', '.join(known)}" if known else ""


def resembling(word: str, known: Iterable[str]) -> str:
    """Return the word of ``known`` most similar to the first 40 characters of ``word``, or ""."""
    from difflib import get_close_matches  # imported only for a mistake, because it delays a start

    folded = {name[:_COMPARED].lower(): name for name in known}
    close = get_close_matches(word[:_COMPARED].lower(), folded, n=1)
    return folded[close[0]] if close else ""


def _convert(
    data: bytes, kind: type[T], findings: "_Findings", *, ignore_rest: bool
) -> tuple[T, "_Findings"]:
    tree = read_json(data, ignore_rest=ignore_rest)
    shape = _shape(cast(Hashable, kind))
    if tree is None:
        value = shape.empty
        if value is _FAILED:
            findings.mismatch((), "is null", shape.name)
    else:
        value = shape.convert(tree, (), findings)
    return value, findings  # type: ignore[return-value]


_Place = tuple[Any, ...]
"""A place as nested pairs ``(outer place, step)``: cheap to make, and rarely converted to text."""


def _path(place: _Place) -> str:
    steps: list[str | int] = []
    while place:
        place, step = place
        steps.append(step)
    return at(*reversed(steps))


class _Findings:
    """Collects mismatches, which prevent a value, and remarks, at most 1,000 of each.

    ``most_remarks`` is 0 for callers that ignore remarks. This saves the search for the intended
    name of an unknown field: 0.1 ms for each.
    """

    __slots__ = ("mismatches", "most_remarks", "remarks")

    def __init__(self, most_remarks: int = MOST) -> None:
        self.most_remarks = most_remarks
        self.mismatches: list[Problem] = []  # these prevent a value
        self.remarks: list[Problem] = []  # the value lacks the named fields

    def mismatch(self, place: _Place, problem: str, wanted: str = "", hint: str = "") -> "_Failed":
        if len(self.mismatches) < MOST:
            text = f"{problem}, must be {wanted}" if wanted else problem
            self.mismatches.append(Problem(at=_path(place), problem=text, hint=hint))
        return _FAILED

    def unknown(self, place: _Place, name: str, known: tuple[str, ...]) -> None:
        if len(self.remarks) < self.most_remarks:
            hint = nearest(name, known)
            self.remarks.append(Problem(_path((place, name)), UNKNOWN, hint))

    def repeated(self, place: _Place, name: str) -> None:
        if len(self.remarks) < self.most_remarks:
            hint = "keep one of them; names of fields are the same in any case"
            self.remarks.append(Problem(_path((place, name)), REPEATED, hint))


class _Failed:
    """The result of a converter without a value: the converter has recorded a mismatch."""


_FAILED: Final = _Failed()

_Converter = Callable[[Any, _Place, _Findings], Any]


class _Shape(msgspec.Struct, frozen=True):
    """The meaning of a type hint: its name for people, its converter, its value for ``null``."""

    name: str
    convert: _Converter
    empty: object = _FAILED
    form: Literal["string", "object", "other"] = "other"  # of the accepted JSON values
    as_it_is: type | None = None  # values of exactly this type need no converter


@functools.cache
def _shape(hint: Any) -> _Shape:
    """Return the shape of the type ``hint``. Raises ``TypeError`` for an unsupported hint."""
    while hasattr(hint, "__supertype__"):  # NewType
        hint = hint.__supertype__
    origin = get_origin(hint)
    if hint in _PLAIN:
        return _PLAIN[hint]
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return _struct(hint)
    if origin is Annotated:
        kind, *notes = get_args(hint)
        meta = next((note for note in notes if isinstance(note, msgspec.Meta)), None)
        return _integer(*bounds_of(meta)) if meta else _shape(kind)
    if origin is tuple:
        return _list(_shape(get_args(hint)[0]))
    if origin is dict:
        return _map(_shape(get_args(hint)[1]))
    if origin in {Union, types.UnionType}:
        return _union(get_args(hint))
    raise TypeError(f"no JSON form for {hint!r}")


def bounds_of(note: Any) -> tuple[int, int]:
    """Return the smallest and the largest integer of a type with ``note``, a ``msgspec.Meta``."""
    return note.ge, (note.extra_json_schema or {}).get("maximum", note.le)


def _kind_of(value: object) -> str:
    """Return the JSON kind of ``value`` for an error, such as "is a string"; never the value."""
    if value is None:
        return "is null"
    if isinstance(value, bool):
        return "is true or false"
    if isinstance(value, str):
        return "is a string"
    if isinstance(value, list):
        return "is a list"
    if isinstance(value, dict):
        return "is an object"
    return "has a fraction or an exponent" if value is INEXACT else "is a number"


def _exactly(kind: type, name: str, empty: object) -> _Shape:
    def convert(value: Any, place: _Place, findings: _Findings) -> Any:
        if type(value) is kind:
            return value
        return findings.mismatch(place, _kind_of(value), name)

    return _Shape(name, convert, empty, "string" if kind is str else "other", kind)


def _integer(low: int, high: int) -> _Shape:
    name = f"an integer from {low} to {high}"

    def convert(value: Any, place: _Place, findings: _Findings) -> Any:
        if type(value) is not int:
            return findings.mismatch(place, _kind_of(value), name)
        if low <= value <= high:
            return value
        return findings.mismatch(place, "is out of range", name)

    return _Shape(name, convert, 0)


def _bytes(value: Any, place: _Place, findings: _Findings) -> Any:
    if type(value) is str:
        try:
            return decode_base64(value)
        except BadRequestError as refusal:
            return findings.mismatch(place, refusal.message, hint=refusal.hint)
    if type(value) is not list:
        return findings.mismatch(place, _kind_of(value), "base64")
    if any(type(number) is not int for number in value):
        return findings.mismatch(place, "is a list with an item that is not a number", "base64")
    try:
        return bytes(value)
    except ValueError:
        return findings.mismatch(place, "holds a number that is not a byte (0 to 255)")


def _secret(value: Any, place: _Place, findings: _Findings) -> Any:
    content = _bytes(value, place, findings)
    return content if content is _FAILED else Secret(content)


def _anything(value: Any, _place: _Place, _findings: _Findings) -> Any:
    return value


_PLAIN: dict[Any, _Shape] = {
    str: _exactly(str, "a string", ""),
    bool: _exactly(bool, "true or false", empty=False),
    int: _integer(-(2**63), 2**63 - 1),
    bytes: _Shape("base64", _bytes, b"", "string"),
    Secret: _Shape("base64", _secret, Secret(b""), "string"),
    object: _Shape("anything", _anything, None),
    type(None): _Shape("null", _anything, None),
}


def _list(item: _Shape) -> _Shape:
    convert_item, empty, as_they_are = item.convert, item.empty, {item.as_it_is}

    def convert(value: Any, place: _Place, findings: _Findings) -> Any:
        if type(value) is not list:
            return findings.mismatch(place, _kind_of(value), "a list")
        if as_they_are.issuperset(map(type, value)):
            return tuple(value)
        made = [
            empty if element is None else convert_item(element, (place, index), findings)
            for index, element in enumerate(value)
        ]
        if empty is _FAILED:
            for index, element in enumerate(value):
                if element is None:
                    findings.mismatch((place, index), "is null", item.name)
        return tuple(made)

    return _Shape("a list", convert, ())


def _map(item: _Shape) -> _Shape:
    convert_item, empty = item.convert, item.empty

    def convert(value: Any, place: _Place, findings: _Findings) -> Any:
        if not isinstance(value, dict):
            return findings.mismatch(place, _kind_of(value), "an object")
        if isinstance(value, Repeated):
            for name in value.names:
                findings.repeated(place, name)
        made = {}
        for name, element in value.items():
            if element is not None:
                made[name] = convert_item(element, (place, name), findings)
            elif empty is _FAILED:
                findings.mismatch((place, name), "is null", item.name)
            else:
                made[name] = empty
        return made

    return _Shape("an object", convert, {}, "object")


def _union(options: tuple[Any, ...]) -> _Shape:
    shapes = [_shape(option) for option in options if option is not type(None)]
    optional = len(shapes) < len(options)
    if len(shapes) == 1:
        return msgspec.structs.replace(shapes[0], empty=None)
    by_form = {shape.form: shape.convert for shape in shapes}
    if len(by_form) < len(shapes) or "other" in by_form:
        raise TypeError("a union type can hold one string type and one object type only")
    if_string, if_object = by_form["string"], by_form["object"]

    def convert(value: Any, place: _Place, findings: _Findings) -> Any:
        if type(value) is str:
            return if_string(value, place, findings)
        if isinstance(value, dict):
            return if_object(value, place, findings)
        return findings.mismatch(place, _kind_of(value), "a string or an object")

    return _Shape("a string or an object", convert, None if optional else _FAILED)


_Field = tuple[str, str, _Converter, type | None]
"""Attribute, declared name, converter, and ``as_it_is`` of the shape."""

_Fields = dict[str, _Field]
"""By JSON name, as declared and in lower case."""


def _struct(kind: type[msgspec.Struct]) -> _Shape:
    fields: _Fields = {}
    declared = msgspec.structs.fields(kind)  # evaluates all annotations: once
    for field in declared:
        shape = _shape(field.type)
        entry = (field.name, field.encode_name, shape.convert, shape.as_it_is)
        fields[field.encode_name] = fields[field.encode_name.lower()] = entry
    known = tuple(dict.fromkeys(name for _, name, *_ in fields.values()))
    required = {field.name: field.encode_name for field in declared if field.required}

    def convert(value: Any, place: _Place, findings: _Findings) -> Any:
        if not isinstance(value, dict):
            return findings.mismatch(place, _kind_of(value), "an object")
        given: dict[str, Any] = {}  # by attribute
        for name, element in value.items():
            entry = fields.get(name) or _in_any_case(name, fields)
            if entry is None:
                findings.unknown(place, name, known)
            elif element is not None:
                attribute, declared, convert_field, as_it_is = entry
                if type(element) is not as_it_is:
                    element = convert_field(element, (place, declared), findings)  # noqa: PLW2901
                given[attribute] = element
        if findings.most_remarks:
            _find_repeated(value, fields, place, findings)
        if required and _any_missing(given, required, place, findings):
            return _FAILED
        return kind(**given)

    return _Shape("an object", convert, _FAILED if required else kind(), "object")


def _find_repeated(
    value: dict[str, Any], fields: _Fields, place: _Place, findings: _Findings
) -> None:
    """Add a remark for each field that the object ``value`` has twice, in any case of letters."""
    names = [*value, *value.names] if isinstance(value, Repeated) else value
    seen = Counter(_declared(name, fields) for name in names)
    for name, times in sorted(seen.items()):
        if times > 1:
            findings.repeated(place, name)


def _declared(name: str, fields: _Fields) -> str:
    entry = _in_any_case(name, fields)
    return entry[1] if entry else name


def _in_any_case(name: str, fields: _Fields) -> _Field | None:
    return fields.get(name.lower()) if name.isascii() else None  # lower() folds more than ASCII


def _any_missing(
    given: dict[str, Any], required: dict[str, str], place: _Place, findings: _Findings
) -> bool:
    missing = [
        declared_name for attribute, declared_name in required.items() if attribute not in given
    ]
    for declared_name in missing:
        findings.mismatch((place, declared_name), "is missing")
    return bool(missing)

"""JSON texts, read by Keyhouse and by the standard library.

Oracle: ``json`` accepts each accepted text, with the same value:

- equal strings, booleans, nulls, lists and objects. For a repeated name, both use the last value
- equal integers with less than 25 characters
- ``INEXACT`` for a number that ``json`` reads as a float

The typed reader of the same text returns values of the declared types. The only permitted exception
is ``UnreadableError``. Keyhouse may refuse more than ``json``: NaN, half surrogate pairs, deep
nesting and very many values.
"""

import json
from random import Random
from typing import Any, ClassVar, Final

import msgspec
from fuzz.documents import changed_value
from fuzz.mutations import mutated
from fuzz.target import FindingError, Target

from keyhouse.base.secret import Secret
from keyhouse.wire.json_decoder import UInt16, UInt64, decode, read
from keyhouse.wire.json_parser import INEXACT, MAX_NESTING, Repeated, UnreadableError, read_json

__all__ = ["JsonTarget"]

_EXACT_DIGITS: Final = 25
_WORDS: Final = (
    *(b'"', b"\\", b"\\u", b"\\ud800", b"\\udc00", b"\\u0000", b"\xef\xbb\xbf", b"\x00", b"\x1f"),
    *(b"[", b"]", b"{", b"}", b",", b":", b"null", b"true", b"NaN", b"Infinity", b"-", b"-0"),
    *(b"0", b"00", b"1e5", b"1E400", b"1.", b".5", b"9" * 30, b'"a":1,"a":2', b"\xff", b"\xe2\x80"),
    *(b"[" * 70, b'{"a":' * 70, b" ", b"\n", b"\t", b"\x0c", b"//", b"/**/", b"'"),
)


class _Inner(msgspec.Struct, frozen=True):
    size: UInt64 = 0
    small: UInt16 | None = None
    flag: bool = False
    name: str = ""


class _Outer(msgspec.Struct, frozen=True):
    data: bytes = b""
    key: Secret | None = None
    many: tuple[_Inner, ...] = ()
    named: dict[str, _Inner] = {}
    either: str | _Inner = ""
    number: int = 0
    rest: object = None


_TEXTS: Final[tuple[Any, ...]] = (
    {"data": "QUJD", "key": "AA==", "many": [{"size": 1, "small": None}], "number": -5},
    {"named": {"a b": {"flag": True}, "é": {"name": "\U0001f600"}}, "either": {"size": 2**64 - 1}},
    {"either": "text", "rest": [1, [2, [3, {"a": [None, True, 0.5, 1e5, '\n\\"']}]]]},
    [1, -2, 10**24, "x" * 50, {}, []],
)


class JsonTarget(Target):
    """Texts that are nearly JSON."""

    name: ClassVar[str] = "json"
    about: ClassVar[str] = "JSON texts, compared with the standard library"

    def draw(self, chance: Random) -> bytes:
        """Return a text with changed values, changed bytes, or both."""
        value = chance.choice(_TEXTS)
        while chance.random() < 0.6:
            value = changed_value(value, chance)
        text = json.dumps(value, ensure_ascii=chance.random() < 0.5).encode(errors="surrogatepass")
        return mutated(text, chance, _WORDS) if chance.random() < 0.8 else text

    def judge(self, case: bytes) -> str:
        """Read the text as a tree and as typed values."""
        typed = _typed(case)
        try:
            ours = read_json(case)
        except UnreadableError as refused:
            if typed:
                raise FindingError("the typed reader accepts a refused text") from None
            return f"refused: {refused.problems[0].problem.partition(',')[0]}"
        try:
            theirs = json.loads(case)
        except ValueError as error:
            raise FindingError(f"the standard library refuses the text: {error}") from None
        _require_equal(ours, theirs, 0)
        return "accepted: typed" if typed else "accepted"


def _typed(case: bytes) -> bool:
    """Return whether the typed reader accepts the text. Require values of the declared types."""
    try:
        found = read(case, _Outer).value
        lax = decode(case, _Outer)
    except UnreadableError:
        return False
    if found != lax:
        raise FindingError("the strict and the lax reader return different values")
    _require_type(found.data, bytes)
    _require_type(found.key, Secret, type(None))
    _require_type(found.number, int)
    for each in (*found.many, *found.named.values(), found.either):
        if not isinstance(each, str):
            _require_declared(each)
    if not -(2**63) <= found.number < 2**63:
        raise FindingError("a number out of range was read")
    return True


def _require_declared(value: _Inner) -> None:
    _require_type(value.size, int)
    _require_type(value.small, int, type(None))
    _require_type(value.flag, bool)
    _require_type(value.name, str)
    if not (0 <= value.size < 2**64 and 0 <= (value.small or 0) < 2**16):
        raise FindingError("a number out of range was read")


def _require_type(value: object, *kinds: type) -> None:
    if type(value) not in kinds:
        raise FindingError(f"the typed reader returned a value of type {type(value).__name__}")


def _require_equal(ours: object, theirs: object, depth: int) -> None:
    if depth > MAX_NESTING:
        raise FindingError("a text was accepted that is nested too deeply")
    if isinstance(theirs, dict):
        _require_equal_objects(ours, theirs, depth)
    elif isinstance(theirs, list):
        if not isinstance(ours, list) or len(ours) != len(theirs):
            raise FindingError("lists differ")
        for one, other in zip(ours, theirs, strict=True):
            _require_equal(one, other, depth + 1)
    else:
        _require_equal_scalars(ours, theirs)


def _require_equal_scalars(ours: object, theirs: object) -> None:
    if isinstance(theirs, float):
        if ours is not INEXACT:
            raise FindingError("a number with a fraction or an exponent was not read as INEXACT")
    elif type(theirs) is int and len(str(theirs)) >= _EXACT_DIGITS:
        if type(ours) is not int or abs(ours) < 2**64:
            raise FindingError("a long number was read as a short number")
    elif type(ours) is not type(theirs) or ours != theirs:
        raise FindingError("values differ")


def _require_equal_objects(ours: object, theirs: dict[str, Any], depth: int) -> None:
    if not isinstance(ours, dict) or list(ours) != _order(ours, theirs):
        raise FindingError("objects differ")
    for name, value in theirs.items():
        _require_equal(ours[name], value, depth + 1)


def _order(ours: dict[str, object], theirs: dict[str, Any]) -> list[str]:
    """Return the expected order of names in ``ours``. Repeated names may be in any order."""
    if isinstance(ours, Repeated):
        return list(ours) if set(ours) == set(theirs) else []
    return list(theirs)

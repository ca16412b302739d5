"""Parses JSON text into plain values: strict and bounded, with a report of repeated keys.

The parser is stricter than RFC 8259: no byte-order mark, no lone surrogates, no NaN or Infinity, at
most 64 levels and 250,000 values. The scanner of CPython has no limits. So levels and values are
counted before the scan, because deep or numerous values could exhaust stack and memory. The
scanner's error texts are never shown, because they could repeat the input.
"""

import json
import re
from collections.abc import Iterable
from typing import Final, NoReturn

from keyhouse.base.errors import BadRequestError, Problem

MAX_NESTING = 64  # levels of arrays and objects, chosen: a manifest has less than ten
MAX_VALUES = 250_000  # values in one text, chosen: each value costs memory during the parse


class UnreadableError(BadRequestError):
    """The text is not JSON, or has the wrong form. ``problems`` has every finding, sorted."""

    code = "unreadable"

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted(problems))
        shown = "; ".join(str(problem) for problem in self.problems[:5])
        more = len(self.problems) - 5
        rest = f"; and {more} more" if more > 0 else ""
        super().__init__(
            f"cannot read the JSON text: {shown}{rest}",
            fields={problem.at or "body": problem.problem for problem in self.problems},
        )


class Repeated(dict[str, object]):
    """An object with repeated keys, listed in ``names``. Each of these keys has its last value."""

    names: tuple[str, ...] = ()


class Inexact:
    """Replaces every number with a fraction or an exponent. No field accepts such a number."""


INEXACT: Final = Inexact()


def read_json(data: bytes, *, ignore_rest: bool = False) -> object:
    """Return the JSON value of ``data``: None, bool, int, str, list, dict, or ``INEXACT``.

    Integers are exact within 64 bits. A longer integer becomes some integer beyond that range.
    Objects with repeated keys become ``Repeated``. Text after the value is refused, or ignored with
    ``ignore_rest``. Raises ``UnreadableError``, which never quotes ``data``. Sources: RFC 8259;
    ``docs/reference/manifest.md``, "JSON".
    """
    text, bad_byte = _decode_utf8(data)
    if bad_byte is not None and not ignore_rest:
        raise _not_utf8(bad_byte)
    _refuse_excess(text)
    start = _after_space(text, 0)
    try:
        value, end = _SCANNER.raw_decode(text, start)
    except json.JSONDecodeError as failure:
        if bad_byte is not None:
            raise _not_utf8(bad_byte) from None
        raise _not_json(text, failure.pos) from None
    if not ignore_rest and _after_space(text, end) != len(text):
        raise _unreadable(f"has further text after its end, {_position(text, end)}")
    if re.search(_SURROGATE, text):
        _refuse_surrogates(value)
    return value


def _decode_utf8(data: bytes) -> tuple[str, int | None]:
    """Return the text up to the first byte that is not UTF-8, and the index of this byte."""
    if data.startswith(b"\xef\xbb\xbf"):
        raise _unreadable("begins with a byte-order mark", hint="save it as UTF-8 without BOM")
    try:
        return data.decode(), None
    except UnicodeDecodeError as failure:  # not chained, because the error contains the bytes
        return data[: failure.start].decode(), failure.start


_ALIKE: Final = bytes.maketrans(b"{}", b"[]")
_OPENING: Final = ord("[")
_NOT_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))
_NO_MARKS: Final = bytes(set(range(256)) - set(b'",[]{}'))


def _refuse_excess(text: str) -> None:
    """Refuse a JSON text with too many levels or values, before the scanner builds any value."""
    if len(text) <= MAX_VALUES and text.count("[") + text.count("{") <= MAX_NESTING:
        return
    # Without escaped backslashes and quotes, every second part between quotes is outside strings.
    # In a text that is not JSON this may be wrong after the first error. That is harmless, because
    # the scanner refuses such a text.
    unescaped = text.encode().replace(b"\\\\", b"").replace(b'\\"', b"")
    marks = unescaped.translate(None, _NO_MARKS)
    if marks.count(b'"') > 4 * MAX_VALUES:
        raise _too_many()
    # Two adjacent quotes do not change the parity. Their removal leaves little to split.
    outside = b"".join(marks.replace(b'""', b"").split(b'"')[::2])
    if outside.count(b",") + outside.count(b"[") + outside.count(b"{") > MAX_VALUES:
        raise _too_many()
    brackets = outside.translate(_ALIKE, _NOT_BRACKETS)
    if _depth(brackets) > MAX_NESTING:
        raise _unreadable(f"is nested deeper than {MAX_NESTING} levels")


def _depth(brackets: bytes) -> int:
    """Return the nesting depth of the first JSON value, from the ``brackets`` of its text."""
    left = brackets
    for level in range(MAX_NESTING + 1):  # each pass removes the innermost level of every value
        if not left:
            return level
        left = left.replace(b"[]", b"")
    depth = deepest = 0
    for bracket in brackets:
        if bracket == _OPENING:
            depth += 1
            deepest = max(deepest, depth)
        else:
            depth -= 1
            if depth <= 0:
                break
    return deepest


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    made = dict(pairs)
    return made if len(made) == len(pairs) else _repeated(pairs)


def _repeated(pairs: list[tuple[str, object]]) -> Repeated:
    made = Repeated()
    names = []
    for name, value in pairs:
        if name in made:
            del made[name]  # the last value determines the order
            names.append(name)
        made[name] = value
    made.names = tuple(dict.fromkeys(names))
    return made


def _whole(digits: str) -> int:
    # JSON has no leading zeros. So a truncated number is still too large, and a megabyte of digits
    # does not cost a conversion in quadratic time.
    return int(digits[:25])


def _inexact(_text: str) -> Inexact:
    return INEXACT


def _refuse_constant(_name: str) -> NoReturn:
    raise _unreadable("holds NaN or Infinity, which are not JSON")


_SCANNER = json.JSONDecoder(
    object_pairs_hook=_object,
    parse_int=_whole,
    parse_float=_inexact,
    parse_constant=_refuse_constant,
)
_SURROGATE = r"\\u[dD][89a-fA-F]"
_SPACE = re.compile(r"[ \t\n\r]*")


def _after_space(text: str, start: int) -> int:
    found = _SPACE.match(text, start)
    return found.end() if found else start


def _refuse_surrogates(value: object) -> None:
    """Refuse strings that UTF-8 cannot encode: Keyhouse could not write such a string again."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise _unreadable("holds half of a surrogate pair (\\ud800 to \\udfff)") from None
    elif isinstance(value, list):
        for item in value:
            _refuse_surrogates(item)
    elif isinstance(value, dict):
        for name, item in value.items():
            _refuse_surrogates(name)
            _refuse_surrogates(item)


def _position(text: str, index: int) -> str:
    line = text.count("\n", 0, index) + 1
    column = index - text.rfind("\n", 0, index)
    return f"line {line}, column {column}"


def _not_json(text: str, index: int) -> UnreadableError:
    if not text.strip():
        return _unreadable("is empty")
    return _unreadable(f"is not JSON, {_position(text, index)}")


def _not_utf8(index: int) -> UnreadableError:
    return _unreadable(f"is not UTF-8, byte {index + 1}")


def _too_many() -> UnreadableError:
    return _unreadable(
        f"holds more than {MAX_VALUES} values", hint="send bytes as base64, not as numbers"
    )


def _unreadable(problem: str, hint: str = "") -> UnreadableError:
    return UnreadableError([Problem(at="", problem=problem, hint=hint)])

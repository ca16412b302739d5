"""A base class for values whose ``repr`` prints bytes in hex, or their length and hash."""

import hashlib
from typing import Any, Final

import msgspec

_SHORT: Final = 64  # bytes: the length of report data, and of the longest hash
_LONG_TEXT: Final = 1_000  # characters, chosen: a longer text fills a screen


class Readable(msgspec.Struct, frozen=True):
    """A Struct with a short ``repr``: bytes in hex, or length and SHA-256 for more than 64 bytes.

    Lists and mappings in the fields are printed in the same way. Secret fields have the type
    ``Secret``, which prints only a length.
    """

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in self.__rich_repr__())
        return f"{type(self).__name__}({fields})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """Return the fields for ``repr``, and for programs that print values with ``rich``."""
        return [(name, _readable(getattr(self, name))) for name in self.__struct_fields__]


class _Plain(str):
    """A ready part of a ``repr``, such as hex, printed without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _readable(value: Any) -> Any:
    if isinstance(value, bytes):
        return _Plain(_bytes(value))
    if isinstance(value, str) and len(value) > _LONG_TEXT:
        return _Plain(f"<{len(value)} characters>")
    if isinstance(value, (tuple, list)):
        return type(value)(map(_readable, value))
    if isinstance(value, dict):
        return {key: _readable(each) for key, each in value.items()}
    return value


def _bytes(value: bytes) -> str:
    if len(value) <= _SHORT:
        return f"<{value.hex()}>" if value else "<0 bytes>"
    return f"<{len(value)} bytes, SHA-256 {hashlib.sha256(value).hexdigest()}>"

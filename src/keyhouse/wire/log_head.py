"""The form of a head of the transparency log in the header ``Keyhouse-Log``.

``<size>.<root>``: a decimal number, and the first 8 bytes of the root of the tree in hex.
"""

import re
from typing import Final

import msgspec

_FORM: Final = re.compile(r"([1-9][0-9]{0,17})\.([0-9a-f]{16})", re.ASCII)
_ROOT_BYTES: Final = 8


class LogHead(msgspec.Struct, frozen=True):
    """A tree of the log: how many leaves it has, and how its root begins."""

    size: int
    root: str  # the first 8 bytes of the root, 16 lower-case hex digits

    @classmethod
    def of(cls, size: int, root: bytes) -> "LogHead":
        """Return the head of the tree with this ``root``, 32 bytes."""
        return cls(size, root[:_ROOT_BYTES].hex())

    def __str__(self) -> str:
        return f"{self.size}.{self.root}"


def log_head_in(text: str) -> LogHead | None:
    """Return the head that ``text`` is; None if it is not in this form."""
    found = _FORM.fullmatch(text)
    return LogHead(int(found[1]), found[2]) if found is not None else None

"""The forms of headers that say where a coordinator is: in its journal, and in its log.

``Keyhouse-State`` and ``Keyhouse-At-Least``: ``<epoch>.<sequence>.<chain>``, two decimal numbers,
and the first 8 bytes of the chain in hex.

``Keyhouse-Log``: ``<size>.<root>``, a decimal number, and the first 8 bytes of the root of the tree
in hex.
"""

import re
from typing import Final

import msgspec

_PLACE: Final = re.compile(r"(0|[1-9][0-9]{0,18})\.(0|[1-9][0-9]{0,18})\.([0-9a-f]{16})", re.ASCII)

_HEAD: Final = re.compile(r"([1-9][0-9]{0,17})\.([0-9a-f]{16})", re.ASCII)
_ROOT_BYTES: Final = 8


class Place(msgspec.Struct, frozen=True):
    """A place in a journal, as in ``Keyhouse-State``."""

    epoch: int
    sequence: int
    chain: str  # the first 8 bytes of the chain value, 16 lower-case hex digits

    def __str__(self) -> str:
        return f"{self.epoch}.{self.sequence}.{self.chain}"


def place_in(text: str) -> Place | None:
    """Return the place that ``text`` is; None if it is not in this form."""
    found = _PLACE.fullmatch(text)
    return Place(int(found[1]), int(found[2]), found[3]) if found is not None else None


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
    found = _HEAD.fullmatch(text)
    return LogHead(int(found[1]), found[2]) if found is not None else None

"""HTTP headers with the place of a coordinator in its journal, and with the head of its log.

The header ``Keyhouse-State`` of an answer and the header ``Keyhouse-At-Least`` of a request have
the form ``<epoch>.<sequence>.<chain>``: two decimal numbers, and the first 8 bytes of the chain
value in hex.

The header ``Keyhouse-Log`` of an answer has the form ``<size>.<root>``: a decimal number, and the
first 8 bytes of the root of the tree in hex.
"""

import re
from typing import Final

import msgspec

_PLACE: Final = r"(0|[1-9][0-9]{0,18})\.(0|[1-9][0-9]{0,18})\.([0-9a-f]{16})"

_ROOT_BYTES: Final = 8  # chosen: 64 bits of a hash name a root briefly


class Place(msgspec.Struct, frozen=True):
    """A place in a journal, as in ``Keyhouse-State``."""

    epoch: int
    sequence: int
    chain: str  # the first 8 bytes of the chain value, 16 lower-case hex digits

    def __str__(self) -> str:
        return f"{self.epoch}.{self.sequence}.{self.chain}"


def place_in(text: str) -> Place | None:
    """Return the place that ``text``, the value of a header, states; None for an invalid text."""
    match_ = re.fullmatch(_PLACE, text)
    return Place(int(match_[1]), int(match_[2]), match_[3]) if match_ is not None else None


class LogHead(msgspec.Struct, frozen=True):
    """A state of the log: the number of leaves, and the first 8 bytes of the tree's root in hex."""

    size: int
    root: str  # the first 8 bytes of the root, 16 lower-case hex digits

    @classmethod
    def of(cls, size: int, root: bytes) -> "LogHead":
        """Return the head of the tree with ``size`` leaves and with this ``root``, 32 bytes."""
        return cls(size, root[:_ROOT_BYTES].hex())

    def __str__(self) -> str:
        return f"{self.size}.{self.root}"

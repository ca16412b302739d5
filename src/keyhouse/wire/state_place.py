"""The form of a place in the journal, in ``Keyhouse-State`` and ``Keyhouse-At-Least``.

``<epoch>.<sequence>.<chain>``: two decimal numbers, and the first 8 bytes of the chain in hex.
"""

import re
from typing import Final

import msgspec

_FORM: Final = re.compile(r"(0|[1-9][0-9]{0,18})\.(0|[1-9][0-9]{0,18})\.([0-9a-f]{16})", re.ASCII)


class Place(msgspec.Struct, frozen=True):
    """A place in a journal, as in ``Keyhouse-State``."""

    epoch: int
    sequence: int
    chain: str  # the first 8 bytes of the chain value, 16 lower-case hex digits

    def __str__(self) -> str:
        return f"{self.epoch}.{self.sequence}.{self.chain}"


def place_in(text: str) -> Place | None:
    """Return the place that ``text`` is; None if it is not in this form."""
    found = _FORM.fullmatch(text)
    return Place(int(found[1]), int(found[2]), found[3]) if found is not None else None

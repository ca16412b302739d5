"""A change as people see it: section, sign (``+ - ~``) and sentence; and how many there are."""

from typing import Literal, NamedTuple

import msgspec

Sign = Literal["+", "-", "~"]


class SignedChange(NamedTuple):
    """One change. ``section``: that of the manifest, or ``Coordinator``."""

    section: str
    sign: Sign
    text: str


class Summary(msgspec.Struct, frozen=True):
    """How many entries come, go and change, and what is lost with them."""

    added: int
    removed: int
    changed: int
    lost: int = 0

    def __str__(self) -> str:
        """Return such as ``2 to add, 1 to change, 1 value lost``; "nothing to change" if so."""
        values = "value" if self.lost == 1 else "values"
        parts = (
            (self.added, "to add"),
            (self.changed, "to change"),
            (self.removed, "to remove"),
            (self.lost, f"{values} lost"),
        )
        told = ", ".join(f"{count} {what}" for count, what in parts if count)
        return told or "nothing to change"

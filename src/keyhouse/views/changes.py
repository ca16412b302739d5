"""Changes for people: a section, a sign (``+ - ~``) and a sentence; and counts of changes."""

from typing import Literal, NamedTuple

import msgspec

Sign = Literal["+", "-", "~"]


class SignedChange(NamedTuple):
    """A change of a manifest: its section, its sign and a sentence.

    ``section`` is a section of the manifest, or ``Coordinator`` for an effect outside of it.
    """

    section: str
    sign: Sign
    text: str


class Summary(msgspec.Struct, frozen=True):
    """Counts of added, removed and changed elements of a manifest, and of lost values."""

    added: int
    removed: int
    changed: int
    lost: int = 0

    def __str__(self) -> str:
        """Return a text such as ``2 to add, 1 to change, 1 value lost``, or "nothing to change"."""
        values = "value" if self.lost == 1 else "values"
        parts = (
            (self.added, "to add"),
            (self.changed, "to change"),
            (self.removed, "to remove"),
            (self.lost, f"{values} lost"),
        )
        text = ", ".join(f"{count} {kind}" for count, kind in parts if count)
        return text or "nothing to change"

"""A peer's own words, fit to be shown."""

from typing import Final

__all__ = ["shown"]

_LONGEST: Final = 2_000


def shown(text: str) -> str:
    """Return a peer's ``text`` fit to be shown: bounded, control characters escaped."""
    cut = text[:_LONGEST]
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in cut)

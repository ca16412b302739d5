"""A state that several coordinators share: its journal is in a database."""

from typing import Final

__all__ = ["TRUSTED_FOR_FRESHNESS", "kept_on"]

TRUSTED_FOR_FRESHNESS: Final = (
    "the database is trusted for freshness: an operator of the database can show a coordinator an"
    " old state, never a forged one"
)
"""What people have to know of a coordinator with a shared store."""


def kept_on(standbys: int) -> str:
    """Return in words where what was acknowledged is, if so many standbys are awaited."""
    return f"an acknowledged change is on at least {standbys + 1} machines of the database"

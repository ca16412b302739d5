"""A state that several coordinators share: its journal is in a database."""

from typing import Final

__all__ = ["TRUSTED_FOR_FRESHNESS"]

TRUSTED_FOR_FRESHNESS: Final = (
    "the database is trusted for freshness: an operator of the database can show a coordinator an"
    " old state, never a forged one"
)
"""What people have to know of a coordinator with a shared store."""

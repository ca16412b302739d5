"""Share one state between several coordinators, with the journal in a database."""

from typing import Final

__all__ = ["TRUSTED_FOR_FRESHNESS", "kept_on"]

TRUSTED_FOR_FRESHNESS: Final = (
    "the database is trusted for freshness: an operator of the database can show a coordinator an"
    " old state, never a forged one"
)
"""The limit of trust that operators of a shared store have to know."""


def kept_on(standbys: int) -> str:
    """Return a text about the number of copies of each acknowledged change.

    ``standbys``: each commit waits for this number of standbys.
    """
    return f"an acknowledged change is on at least {standbys + 1} machines of the database"

"""How a replica that cannot open the state gets the data key from one that has it."""

from typing import Protocol

import msgspec

from keyhouse.base.secret import Secret
from keyhouse.journal.directory.found import Opened, Vouched
from keyhouse.journal.store.protocol import Position


class Offer(msgspec.Struct, frozen=True):
    """A data key, of which nothing is proven, and a place that its journal has reached."""

    dek: Secret
    place: Position


class Join(Protocol):
    """Asks for the data key, and says whether what it opens may be used."""

    async def offered(self, store_id: bytes, known: Position | None) -> Offer | None:
        """Return an offer for the store; None if none came within about a second.

        ``known``: the highest place of the journal that this machine has seen.
        """
        ...

    async def is_better(self, opened: Opened) -> bool:
        """Tell whether the own seal lacks something of ``opened`` that others can vouch for."""
        ...

    async def accept(self, opened: Opened) -> Vouched | None:
        """Return how far the line of ``opened`` is proven by now, if it may be used.

        Raises ``RefusedError`` or ``UnavailableError``.
        """
        ...

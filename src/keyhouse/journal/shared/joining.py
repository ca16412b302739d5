"""How a replica that cannot open the state gets the data key from one that has it."""

from typing import Protocol

import msgspec

from keyhouse.base.secret import Secret
from keyhouse.journal.directory.found import Opened
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

    async def accept(self, opened: Opened) -> None:
        """Raise ``RefusedError`` or ``UnavailableError`` unless ``opened`` may be used."""
        ...

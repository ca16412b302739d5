"""Define how a replica that cannot open the state requests the data key from a serving replica."""

from typing import Protocol

import msgspec

from keyhouse.base.secret import Secret
from keyhouse.journal.directory.load_result import Opened, Vouched
from keyhouse.journal.store.protocol import Position


class KeyOffer(msgspec.Struct, frozen=True):
    """A data key and a place of its journal. Nothing about the two is proven."""

    dek: Secret
    place: Position


class Join(Protocol):
    """Requests the data key from serving replicas, and checks whether to use an opened store."""

    async def offered(self, store_id: bytes, known: Position | None) -> KeyOffer | None:
        """Return an offer of the data key for a store; None without an offer in about a second.

        ``known`` is the highest place of the journal that this machine has seen.
        """
        ...

    async def is_better(self, opened: Opened) -> bool:
        """Return whether only a replica can prove some acknowledgements in ``opened``.

        ``opened`` is the state as this machine's own seal opens it. If True, the caller first
        requests the data key from serving replicas.
        """
        ...

    async def accept(self, opened: Opened) -> Vouched | None:
        """Return the proven part of the line of ``opened``, if the state may be used.

        Raises ``RefusedError`` or ``UnavailableError``.
        """
        ...

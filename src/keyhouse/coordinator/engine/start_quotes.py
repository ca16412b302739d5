"""Make the quote about a start: a statement of the hardware about the code of this process.

The quote binds the log before the leaf of the start, so the statement concerns the time from this
leaf on. The quote is made after all other decisions of a start, and before the start is durable.
Without a quote the start continues, and the leaf names no quote.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from keyhouse.attestation import start_report_data
from keyhouse.base.errors import KeyhouseError
from keyhouse.base.log import log
from keyhouse.coordinator.core.events import Event, Published
from keyhouse.journal import LogStore
from keyhouse.transparency.leaf import StartedLeaf, encode_leaf, object_name, read_leaf
from keyhouse.transparency.tree import Frontier, leaf_hash


class StartQuote(msgspec.Struct, frozen=True):
    """A quote, and the collateral that verifies it; empty without collateral."""

    quote: bytes
    collateral: bytes


MakeQuote = Callable[[bytes], StartQuote]
"""Returns a quote over report data (64 bytes). May block, and raises ``KeyhouseError``."""


class QuotedStart(msgspec.Struct, frozen=True):
    """The events of a start, and the objects that their leaf names."""

    events: tuple[Event, ...]
    objects: tuple[bytes, ...] = ()


class StartQuotes:
    """Makes the quote for the log leaf about the start of this process.

    ``make`` requests the quote from the platform. Without ``make``, the leaf has no quote.
    """

    def __init__(self, make: MakeQuote | None) -> None:
        self._make: Final = make

    async def with_quote(
        self, events: Sequence[Event], before: Frontier, root_der: bytes
    ) -> QuotedStart:
        """Return ``events`` of a start with a quote, or unchanged if no quote is possible.

        ``before`` is the log before the events. ``root_der`` is the root certificate of the state.
        """
        plain = QuotedStart(tuple(events))
        if self._make is None:
            return plain
        at, published = next(
            (at, each) for at, each in enumerate(events) if isinstance(each, Published)
        )
        raws = list(published.leaves)
        number, started = next(
            (number, leaf)
            for number, leaf in enumerate(map(read_leaf, raws))
            if isinstance(leaf, StartedLeaf)
        )
        tree = before.extended(map(leaf_hash, raws[:number]))
        bound = start_report_data(root_der, bytes.fromhex(started.instance), tree.size, tree.root)
        try:
            made = await asyncio.to_thread(self._make, bound)
        except KeyhouseError as error:
            log.warning("no quote about this start", reason=error.message)
            return plain
        collateral = object_name(made.collateral) if made.collateral else ""
        named = replace(started, quote=object_name(made.quote), collateral=collateral)
        raws[number] = encode_leaf(named)
        extended = replace(published, leaves=tuple(raws))
        objects = tuple(each for each in (made.quote, made.collateral) if each)
        return QuotedStart((*events[:at], extended, *events[at + 1 :]), objects)

    async def with_stored_quote(
        self, events: Sequence[Event], before: Frontier, root_der: bytes, store: LogStore
    ) -> tuple[Event, ...]:
        """Return the result of ``with_quote``, after the objects in the leaf are in ``store``."""
        quoted = await self.with_quote(events, before, root_der)
        try:
            await store.put_objects(quoted.objects)
        except KeyhouseError as error:  # the host may have damaged the folder
            log.warning("no quote about this start", reason=error.message)
            return tuple(events)
        return quoted.events

"""The quote about a start: the hardware says which code serves, from which leaf of the log on.

It is made when everything else of a start is decided, before that is durable, since it binds the
log before the leaf. Where none can be made the start is as good as without, and the leaf says so.
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
from keyhouse.transparency.leaf import Started, encode_leaf, object_name, read_leaf
from keyhouse.transparency.tree import Frontier, leaf_hash


class StartQuote(msgspec.Struct, frozen=True):
    """A quote, and the bundle of collateral that it verifies with; empty if there is none here."""

    quote: bytes
    collateral: bytes


MakeQuote = Callable[[bytes], StartQuote]
"""Returns a quote over report data (64 bytes). It may block, and raises ``KeyhouseError``."""


class Quoted(msgspec.Struct, frozen=True):
    """The events of a start, whose leaf names these objects."""

    events: tuple[Event, ...]
    objects: tuple[bytes, ...] = ()


class StartQuotes:
    """Makes the quotes for the starts of one process; None: it can make none."""

    def __init__(self, make: MakeQuote | None) -> None:
        self._make: Final = make

    async def of(self, events: Sequence[Event], before: Frontier, root_der: bytes) -> Quoted:
        """Return ``events``, of a start, with its quote; as they are if none can be made.

        ``before``: the log before them. ``root_der``: of the root that the state has.
        """
        plain = Quoted(tuple(events))
        if self._make is None:
            return plain
        at, published = next(
            (at, each) for at, each in enumerate(events) if isinstance(each, Published)
        )
        raws = list(published.leaves)
        number, started = next(
            (number, leaf)
            for number, leaf in enumerate(map(read_leaf, raws))
            if isinstance(leaf, Started)
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
        with_quote = replace(published, leaves=tuple(raws))
        objects = tuple(each for each in (made.quote, made.collateral) if each)
        return Quoted((*events[:at], with_quote, *events[at + 1 :]), objects)

    async def kept(
        self, events: Sequence[Event], before: Frontier, root_der: bytes, store: LogStore
    ) -> tuple[Event, ...]:
        """Return ``events`` as ``of`` does; what their leaf names is in ``store``."""
        quoted = await self.of(events, before, root_der)
        try:
            await store.put_objects(quoted.objects)
        except KeyhouseError as error:  # the folder may be damaged: it is the host's
            log.warning("no quote about this start", reason=error.message)
            return tuple(events)
        return quoted.events

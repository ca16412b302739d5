"""Prove a start: a quote about the code of this process, and an entry in the line of the root.

The quote is a statement of the hardware. Its report data contains a hash over the log before the
leaf of the start. So the quote cannot be older than that log. The quote is made after all remaining
decisions of a start, and before the start is durable. Without a quote the start continues, and the
leaf names no quote.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from keyhouse.attestation import start_report_data
from keyhouse.base.errors import KeyhouseError, UnavailableError
from keyhouse.base.log import log
from keyhouse.coordinator.core.context import Context
from keyhouse.coordinator.core.events import Event, LineExtended, LogBegun, Published
from keyhouse.coordinator.core.line import line_of
from keyhouse.coordinator.core.state import Running
from keyhouse.coordinator.engine.writer import JournalWriter
from keyhouse.coordinator.origin.checks import Origin
from keyhouse.journal import LogStore
from keyhouse.transparency.leaf import StartedLeaf, encode_leaf, object_name, read_leaf
from keyhouse.transparency.tree import Frontier, leaf_hash


class StartQuote(msgspec.Struct, frozen=True):
    """A quote, and its collateral. ``collateral`` is empty if there is none."""

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

        ``before``: the frontier of the log before the events. ``root_der``: the root certificate of
        the state.
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
            log.warning("this start has no quote", reason=error.message)
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
        """Return the events from ``with_quote``, after the quote is an object in the log ``store``.

        If the store of the quote fails, return ``events`` unchanged.
        """
        quoted = await self.with_quote(events, before, root_der)
        try:
            await store.put_objects(quoted.objects)
        except KeyhouseError as error:  # the host may have damaged the folder
            log.warning("this start has no quote", reason=error.message)
            return tuple(events)
        return quoted.events


async def start_line_events(
    origin: Origin | None,
    state: Running,
    context: Context,
    begun: LogBegun | None,
    holders: Sequence[str] = (),
) -> tuple[Event, ...]:
    """Return the event that extends the line of the proven ``state``; no event if nothing is new.

    ``begun``: the event that begins a new log; None: no log begins. ``holders``: the owners of the
    shares in a recovery; empty: no recovery. An adopted state has no line: its line begins with
    this event. In a shared store, ``Engine.begin_line`` begins the line later, because coordinators
    of older versions would stop at this event.
    """
    if origin is None:
        return ()
    replaced = begun is not None and state.public_log is not None
    new_log = begun.verifier.partition("+")[0] if begun is not None and replaced else ""
    try:
        if origin.needs_adoption(state):
            items = (
                () if context.shares_store else await origin.adoption_entries(state, context.now)
            )
        else:
            items = await origin.start_entries(state, context.now, holders=holders, new_log=new_log)
    except UnavailableError as error:
        log.warning("this start is not in the line of the root", reason=error.message)
        return ()
    return (LineExtended(items),) if items else ()


async def line_objects(state: Running, writer: JournalWriter) -> list[bytes]:
    """Return the objects that prove the line of ``state``, as far as they are readable.

    Manifests are included: a manifest may admit the code of a later entry. A manifest that gave a
    secret its first value is not an object. So a missing manifest does not count as lost.
    """
    found: list[bytes] = []
    line = line_of(state)
    manifests = set(() if line is None else line.manifests)
    proofs = [each for item in state.line for each in (item.quote, item.collateral) if each]
    for name in dict.fromkeys((*proofs, *sorted(manifests))):
        try:
            raw = await writer.read_object(state, name)
        except UnavailableError:
            raw = None
        if raw is None and name not in manifests:
            log.error("an object that proves the line of the root is lost", name=name)
        elif raw is not None:
            found.append(raw)
    return found

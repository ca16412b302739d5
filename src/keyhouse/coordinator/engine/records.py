"""Convert between events and payloads of the journal, and rebuild the state from payloads."""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, get_args

import msgspec

from keyhouse.base.errors import BrokenError
from keyhouse.base.printable import quoted
from keyhouse.coordinator.core import lineages
from keyhouse.coordinator.core.events import (
    BaseBegun,
    Event,
    LogBegun,
    ManifestUpdated,
    WorkloadsRevoked,
)
from keyhouse.coordinator.core.evolve import evolve_all
from keyhouse.coordinator.core.publishing import leaves_of
from keyhouse.coordinator.core.state import Running, State
from keyhouse.coordinator.core.update_log import UpdateLog
from keyhouse.journal import Codec
from keyhouse.journal.chain import UndecodableError
from keyhouse.transparency.tree import Frontier

_INLINE: Final = 64
"""The most events that are applied on the event loop: these take about a millisecond."""

EVENTS: Final[Codec[Event]] = Codec(Event, name="event")
"""Encodes events as the payloads of records. ``encode_checked`` verifies that the bytes decode."""


def encode_events(events: Iterable[Event]) -> Iterator[bytes]:
    """Yield each event as canonical bytes, which decode to an equal event."""
    return map(EVENTS.encode_checked, events)


def decode_events(payloads: Iterable[bytes]) -> Iterator[Event]:
    """Yield the events of ``payloads``.

    Raises ``UndecodableError`` for bytes that are not an event, and names the tag of an event of a
    newer version.
    """
    return map(_decoded, payloads)


def _decoded(payload: bytes) -> Event:
    try:
        return EVENTS.decode(payload)
    except UndecodableError:
        tag = _tag_of(payload)
        if not tag or tag in _TAGS:
            raise
        raise UndecodableError(
            f"the journal has an event {quoted(tag)}, which this version does not know",
            hint="start the newer version of Keyhouse that wrote the journal",
        ) from None


class _Tagged(msgspec.Struct):
    """An event of any version. The tag is public; the content of an event is secret."""

    type: str


_TAGS: Final = frozenset(each.__struct_config__.tag for each in get_args(Event))
_WALKS: Final = frozenset(
    each.__struct_config__.tag for each in (ManifestUpdated, WorkloadsRevoked)
)
"""Tags of the events that walk all lineages."""


def _tag_of(payload: bytes) -> str:
    try:
        return msgspec.msgpack.decode(payload, type=_Tagged).type
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""


async def applied(state: Running, payloads: Sequence[bytes]) -> tuple[State, list[Event]]:
    """Return the state after ``payloads``, and their events.

    A long list, or events that walk many lineages, are applied in a thread.
    """

    def work() -> tuple[State, list[Event]]:
        events = list(decode_events(payloads))
        return evolve_all(state, events), events

    if len(payloads) > _INLINE or _walks_many(state, payloads):
        return await asyncio.to_thread(work)
    return work()


def _walks_many(state: Running, payloads: Sequence[bytes]) -> bool:
    count = len(state.lineages)
    if count <= lineages.INLINE:
        return False
    # An event with a lineage is an activation on its own.
    return lineages.is_cleaning_due(count, len(payloads)) or any(
        _tag_of(each) in _WALKS for each in payloads
    )


class LogTail:
    """The end of the transparency log in a replay.

    ``filed``: the frontier of the leaves in files. ``leaves``: all later leaves.
    """

    def __init__(self) -> None:
        self.filed = Frontier()
        self.leaves: list[bytes] = []

    def add(self, event: Event) -> None:
        """Process the next event of the replay: its leaves move the end of the log."""
        if isinstance(event, BaseBegun) and event.public_log is not None:
            self.filed = event.public_log.frontier
        elif isinstance(event, LogBegun):
            self.filed, self.leaves = Frontier(), []
        self.leaves += leaves_of((event,))


def rebuild(payloads: Iterable[bytes], tail: LogTail | None = None) -> tuple[Running, UpdateLog]:
    """Return the state and the update log of ``payloads``, which begin with a base.

    ``tail`` collects the end of the transparency log.

    Raises ``BrokenError`` for bytes that are not an event, or events that do not make a state.
    """
    update_log = UpdateLog()
    state: State | None = None
    for event in decode_events(payloads):
        state = evolve_all(state, (event,))
        update_log.extend((event,))
        if tail is not None:
            tail.add(event)
    if not isinstance(state, Running):
        raise BrokenError("the journal holds no manifest", hint="restore a backup")
    return state, update_log

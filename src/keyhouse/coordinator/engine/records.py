"""Events as payloads of the journal, and the state that is rebuilt from them."""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from keyhouse.base.errors import BrokenError
from keyhouse.coordinator.core.events import BaseBegun, Event, LogBegun
from keyhouse.coordinator.core.evolve import evolve_all
from keyhouse.coordinator.core.publishing import leaves_of
from keyhouse.coordinator.core.state import Running, State
from keyhouse.coordinator.core.update_log import UpdateLog
from keyhouse.journal import Codec
from keyhouse.transparency.tree import Frontier

_INLINE: Final = 64
"""Events that are applied on the event loop: they take about a millisecond."""

_CODEC: Codec[Event] = Codec(Event, name="event")


def encode_events(events: Iterable[Event]) -> Iterator[bytes]:
    """Yield each event as canonical bytes: equal in every process, and known to decode."""
    return map(_CODEC.encode_checked, events)


def encode_again(event: Event) -> bytes:
    """Return the bytes of an event that was encoded before without its leaves: those decode."""
    return _CODEC.encode(event)


def decode_events(payloads: Iterable[bytes]) -> Iterator[Event]:
    """Yield the events of ``payloads``. Raises ``BrokenError`` on bytes that are no event."""
    return (_CODEC.decode(payload) for payload in payloads)


async def applied(state: Running, payloads: Sequence[bytes]) -> tuple[State, list[Event]]:
    """Return the state after ``payloads``, and their events. Many are applied in a thread."""

    def work() -> tuple[State, list[Event]]:
        events = list(decode_events(payloads))
        return evolve_all(state, events), events

    if len(payloads) <= _INLINE:
        return work()
    return await asyncio.to_thread(work)


class LogTail:
    """What a replay says of the transparency log: how much its files have, and all leaves since."""

    def __init__(self) -> None:
        self.filed = Frontier()
        self.leaves: list[bytes] = []

    def take(self, event: Event) -> None:
        """Look at the next event of the replay."""
        if isinstance(event, BaseBegun) and event.public_log is not None:
            self.filed = event.public_log.frontier
        elif isinstance(event, LogBegun):
            self.filed, self.leaves = Frontier(), []
        self.leaves += leaves_of((event,))


def rebuild(payloads: Iterable[bytes], tail: LogTail | None = None) -> tuple[Running, UpdateLog]:
    """Return the state and the update log that ``payloads``, from a base on, make.

    ``tail`` takes what they say of the transparency log.

    Raises:
        BrokenError: bytes that are no event, or events that make no state.
    """
    update_log = UpdateLog()
    state: State | None = None
    for event in decode_events(payloads):
        state = evolve_all(state, (event,))
        update_log.extend((event,))
        if tail is not None:
            tail.take(event)
    if not isinstance(state, Running):
        raise BrokenError("the journal holds no manifest", hint="restore a backup")
    return state, update_log

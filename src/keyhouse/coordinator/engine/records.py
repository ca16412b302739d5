"""Events as the journal's payloads, and back."""

from collections.abc import Iterable, Iterator

from keyhouse.coordinator.core.events import Event
from keyhouse.journal import Codec

__all__ = ["decode_events", "encode_events"]

_CODEC: Codec[Event] = Codec(Event, name="event")


def encode_events(events: Iterable[Event]) -> Iterator[bytes]:
    """Yield each event as canonical bytes: equal in every process, and known to decode."""
    return (_CODEC.encode_checked(event) for event in events)


def decode_events(payloads: Iterable[bytes]) -> Iterator[Event]:
    """Yield the events of ``payloads``. Raises ``Broken`` on bytes that are no event."""
    return (_CODEC.decode(payload) for payload in payloads)

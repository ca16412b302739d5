"""The newest events of this process, for monitoring. The audit trail is in the journal instead.

Source: ``docs/reference/metrics.md``.
"""

from collections import deque
from datetime import UTC, datetime
from itertools import count
from typing import Final

import msgspec

from keyhouse.base.printable import beginning

MOST: Final = 10_000
"""Largest number of stored activations. Older activations are dropped."""

MOST_BYTES: Final = 16 * 1024 * 1024
"""Largest size of stored activations as JSON. A workload chooses the size of its quote: 64 KiB."""

MOST_REFUSALS: Final = 1_000
"""Largest number of stored refusals. Refusals of anonymous clients never displace activations."""

MOST_RENEWALS: Final = 10_000
"""Largest number of stored renewals. Renewals are frequent, and never displace activations."""

LONGEST_REASON: Final = 1_000
"""Largest number of characters of a refusal's reason. The rest is cut."""

_SECOND: Final = 1_000_000_000  # nanoseconds


class ActivationEvent(msgspec.Struct, frozen=True, rename="camel"):
    """A successful activation. ``quote`` is base64 in JSON, or None without a quote."""

    marble_type: str
    uuid: str
    quote: bytes | None = None


class RefusalEvent(msgspec.Struct, frozen=True, rename="camel"):
    """A refused activation. Type and UUID are claims of the client, cut at 100 characters.

    ``code`` is the code of the error, as in metrics and logs. ``reason`` is its text.
    """

    marble_type: str
    uuid: str
    code: str
    reason: str


class RenewalEvent(msgspec.Struct, frozen=True, rename="camel"):
    """A renewed certificate of a running workload.

    ``platform``: the machine of the workload, in hexadecimal; empty without a quote.
    """

    marble_type: str
    uuid: str
    platform: str
    tcb_status: str


class _Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An activation, a refusal or a renewal, and its time (RFC 3339)."""

    time: str
    activation: ActivationEvent | None = None
    refusal: RefusalEvent | None = None
    renewal: RenewalEvent | None = None


class Events:
    """The newest events of this process, as JSON.

    At most ``MOST`` activations, ``MOST_REFUSALS`` refusals and ``MOST_RENEWALS`` renewals. There
    are fewer activations if their size exceeds ``MOST_BYTES``.
    """

    def __init__(self) -> None:
        # Numbers events in the order of their occurrence.
        self._numbers = count()
        self._activations: deque[tuple[int, bytes]] = deque()
        # Bytes of all activations.
        self._bytes = 0
        self._refusals: deque[tuple[int, bytes]] = deque(maxlen=MOST_REFUSALS)
        self._renewals: deque[tuple[int, bytes]] = deque(maxlen=MOST_RENEWALS)
        # The JSON of all events, until the next event.
        self._json: bytes | None = None

    def activated(self, activation: ActivationEvent, *, at: int) -> None:
        """Add a successful activation. ``at`` is nanoseconds since 1970, UTC."""
        activations = self._activations
        number, event = self._event(_Event(time=rfc3339(at), activation=activation))
        activations.append((number, event))
        self._bytes += len(event)
        while len(activations) > MOST or self._bytes > MOST_BYTES:
            self._bytes -= len(activations.popleft()[1])

    def refused(self, refusal: RefusalEvent, *, at: int) -> None:
        """Add a refused activation. ``at`` is nanoseconds since 1970, UTC.

        The caller limits the rate.
        """
        shown = beginning(refusal.reason, LONGEST_REASON)
        refusal = msgspec.structs.replace(refusal, reason=shown)
        self._refusals.append(self._event(_Event(time=rfc3339(at), refusal=refusal)))

    def renewed(self, renewal: RenewalEvent, *, at: int) -> None:
        """Add a renewal. ``at`` is nanoseconds since 1970, UTC."""
        self._renewals.append(self._event(_Event(time=rfc3339(at), renewal=renewal)))

    def as_json(self) -> bytes:
        """Return all events as a JSON array, oldest first. Simultaneous callers share the text."""
        if self._json is None:
            # All runs are sorted, so the sort only merges them.
            ordered = sorted((*self._activations, *self._refusals, *self._renewals))
            self._json = b"[%b]\n" % b",".join(event for _, event in ordered)
        return self._json

    def _event(self, event: _Event) -> tuple[int, bytes]:
        self._json = None
        return next(self._numbers), msgspec.json.encode(event)


def rfc3339(nanoseconds: int) -> str:
    """Return a time since 1970 as RFC 3339 text with nine digits after the second, UTC."""
    seconds, rest = divmod(nanoseconds, _SECOND)
    moment = datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None)
    return f"{moment.isoformat()}.{rest:09d}Z"

"""The newest events of this process, for monitoring. The audit is another: it is journalled.

Source: wire reference of the interface, "Observability".
"""

from collections import deque
from datetime import UTC, datetime
from itertools import count
from typing import Final

import msgspec

from keyhouse.base.printable import beginning

MOST: Final = 10_000
"""Activations that are kept; older ones are forgotten."""

MOST_BYTES: Final = 16 * 1024 * 1024
"""Bytes of them, as JSON: a workload chooses how long its quote is, up to 64 KiB."""

MOST_REFUSALS: Final = 1_000
"""Refusals that are kept beside them: anonymous clients cannot push an activation out."""

LONGEST_REASON: Final = 1_000
"""Characters of the reason of a refusal; of a longer one the beginning is shown."""

_SECOND: Final = 1_000_000_000


class Activation(msgspec.Struct, frozen=True, rename="camel"):
    """A workload that was activated. ``quote`` is base64 in JSON; None where there was none."""

    marble_type: str
    uuid: str
    quote: bytes | None = None


class Refusal(msgspec.Struct, frozen=True, rename="camel"):
    """A workload that was not. Type and UUID are what it claimed, at most 100 characters of each.

    ``code`` is that of the error, as in metrics and logs; ``reason`` is its text.
    """

    marble_type: str
    uuid: str
    code: str
    reason: str


class _Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One of both, and when it happened (RFC 3339)."""

    time: str
    activation: Activation | None = None
    refusal: Refusal | None = None


class Events:
    """The last ``MOST`` activations and ``MOST_REFUSALS`` refusals, each kept as it is answered.

    The activations are fewer where they would have more than ``MOST_BYTES``.
    """

    def __init__(self) -> None:
        self._numbers = count()  # tells in which order they happened
        self._activations: deque[tuple[int, bytes]] = deque()
        self._bytes = 0  # of them
        self._refusals: deque[tuple[int, bytes]] = deque(maxlen=MOST_REFUSALS)
        self._json: bytes | None = None  # all of them, until there is another one

    def activated(self, activation: Activation, *, at: int) -> None:
        """Add a successful activation; ``at`` is nanoseconds since 1970, UTC."""
        activations = self._activations
        number, event = self._event(_Event(time=rfc3339(at), activation=activation))
        activations.append((number, event))
        self._bytes += len(event)
        while len(activations) > MOST or self._bytes > MOST_BYTES:
            self._bytes -= len(activations.popleft()[1])

    def refused(self, refusal: Refusal, *, at: int) -> None:
        """Add a refused one. Who calls this bounds how often."""
        shown = beginning(refusal.reason, LONGEST_REASON)
        refusal = msgspec.structs.replace(refusal, reason=shown)
        self._refusals.append(self._event(_Event(time=rfc3339(at), refusal=refusal)))

    def as_json(self) -> bytes:
        """Return all events as a JSON array, oldest first: one text for all who ask meanwhile."""
        if self._json is None:
            # Two runs that are sorted already: this only merges them.
            ordered = sorted((*self._activations, *self._refusals))
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

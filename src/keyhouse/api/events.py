"""The newest events of this process, for whoever watches. They are no audit: that is journalled.

Source: wire reference of the interface, "Observability".
"""

from collections import deque
from datetime import UTC, datetime
from typing import Final

import msgspec

__all__ = ["MOST", "Activation", "Events", "rfc3339"]

MOST: Final = 10_000
"""Events that are kept; older ones are forgotten."""

_SECOND: Final = 1_000_000_000


class Activation(msgspec.Struct, frozen=True, rename="camel"):
    """A workload that was activated. ``quote`` is base64 in JSON; None where there was none."""

    marble_type: str
    uuid: str
    quote: bytes | None = None


class Events:
    """The last ``MOST`` events, oldest first, each kept as it is answered."""

    def __init__(self) -> None:
        self._encoded: deque[bytes] = deque(maxlen=MOST)

    def activated(self, activation: Activation, *, at: int) -> None:
        """Add a successful activation; ``at`` is nanoseconds since 1970, UTC."""
        event = {"time": rfc3339(at), "activation": activation}
        self._encoded.append(msgspec.json.encode(event))

    def as_json(self) -> bytes:
        """Return all events as a JSON array."""
        return b"[%b]\n" % b",".join(self._encoded)


def rfc3339(nanoseconds: int) -> str:
    """Return a time since 1970 as RFC 3339 text with nine digits after the second, UTC."""
    seconds, rest = divmod(nanoseconds, _SECOND)
    moment = datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None)
    return f"{moment.isoformat()}.{rest:09d}Z"

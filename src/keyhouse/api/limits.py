"""What a client of the HTTP listener may use: sizes, counts, times."""

import math
from typing import get_type_hints

import msgspec

from keyhouse.wire.errors import Broken

__all__ = ["Limits"]


class Limits(msgspec.Struct, frozen=True):
    """The limits of one listener. Sizes are bytes, times are seconds; all are above zero.

    Times are measured by a sweep over all connections, so they are exact to ``sweep_interval``.

    Raises ``Broken`` where a value is no limit: zero, negative, endless or of another type.
    """

    request_line: int = 16 * 1024  # 414 beyond
    headers: int = 32 * 1024  # all header lines together; 431 beyond
    header_fields: int = 100  # 431 beyond
    connections: int = 12_000  # closed at once beyond
    body_memory: int = 256 * 1024 * 1024  # bodies in flight, all connections together; 503 beyond
    pipelined_turn: int = 64  # requests of one connection answered before others have their turn
    linger_bytes: int = 1024 * 1024  # discarded of an unread body so that the answer arrives
    handshake_timeout: float = 15.0
    header_timeout: float = 30.0  # for a whole head, from its first byte; 408 beyond
    body_timeout: float = 30.0  # for a whole body; 408 beyond
    idle_timeout: float = 30.0  # between requests; also for taking an answer
    slowest_client: int = 32 * 1024  # bytes per second: large answers get the time this takes
    linger_timeout: float = 5.0  # from the last answer to the end of the socket
    sweep_interval: float = 1.0

    def __post_init__(self) -> None:
        """Check every value: a limit that is none would not be missed until it is needed."""
        for name, kind in _KINDS.items():
            value = getattr(self, name)
            fits = type(value) is int or (kind is float and type(value) is float)
            if not fits or not 0 < value < math.inf:
                raise Broken(f"the limit {name} is no {kind.__name__} above zero")


_KINDS = get_type_hints(Limits)

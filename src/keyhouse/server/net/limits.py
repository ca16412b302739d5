"""The limits for the clients of a listener: sizes, counts and times."""

import math
from typing import Final

import msgspec

from keyhouse.base.errors import BrokenError


class ConnectionLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of any listener. Sizes are bytes, times are seconds; all are above zero.

    Times are measured by a sweep over all connections, so they are exact to ``sweep_interval``.

    Raises ``BrokenError`` for a value that is not a limit: zero, negative, endless or of another
    type.
    """

    connections: int = 12_000  # closed at once beyond
    idle_connections: int = 12_000  # that wait for their client for long; beyond, the longest go
    linger_bytes: int = 1024 * 1024  # discarded of an unread body so that the answer arrives
    handshake_bytes: int = 16 * 1024  # of a client until its TLS handshake is complete
    handshake_timeout: float = 15.0
    idle_timeout: float = 30.0  # between requests; also for taking an answer
    linger_timeout: float = 5.0  # from the last answer to the end of the socket
    sweep_interval: float = 1.0

    def __post_init__(self) -> None:
        """Check every value: an invalid limit would not be noticed until it is needed."""
        # All fields have defaults, of the types that they state.
        for name, default in zip(self.__struct_fields__, self.__struct_defaults__, strict=True):
            value, kind = getattr(self, name), type(default)
            fits = type(value) is int or (kind is float and type(value) is float)
            if not fits or not 0 < value < math.inf:
                raise BrokenError(
                    f"the limit {name} is {value!r}, must be a {kind.__name__} above zero"
                )


class Limits(ConnectionLimits, frozen=True, kw_only=True):
    """The limits of an HTTP listener."""

    request_line: int = 16 * 1024  # 414 beyond
    headers: int = 32 * 1024  # all header lines together; 431 beyond
    header_fields: int = 100  # 431 beyond
    body_memory: int = 256 * 1024 * 1024  # bodies in flight, all connections together; 503 beyond
    turn_bytes: int = 64 * 1024  # of answers to one connection before others, each 1 KiB at least
    header_timeout: float = 30.0  # for a whole head, from its first byte; 408 beyond
    body_timeout: float = 30.0  # for a whole body; 408 beyond
    slowest_client: int = 32 * 1024  # bytes per second: large answers get the time this takes


class WorkloadLimits(ConnectionLimits, frozen=True, kw_only=True):
    """The limits of the workload API."""

    connections: int = 4096
    idle_connections: int = 4096
    watches: int = 4096  # connections with a lasting call, beside the others; UNAVAILABLE beyond
    silence: float = 60.0  # of the client of a lasting call, until a PING
    message: int = 4 * 1024 * 1024  # of a request; RESOURCE_EXHAUSTED beyond
    metadata: int = 2 * 1024  # header list of a request, as HTTP/2 counts it; closed beyond
    header_block: int = 1024  # bytes of that list, encoded; closed beyond
    streams: int = 100  # open on one connection; closed beyond
    all_streams: int = 16_384  # open on all connections; beyond, who has most loses: UNAVAILABLE
    calls: int = 4096  # in flight on all connections; beyond, who has most loses: UNAVAILABLE
    connection_bytes: int = 8 * 1024 * 1024  # of requests in flight; RESOURCE_EXHAUSTED beyond
    message_memory: int = 256 * 1024 * 1024  # of all requests; beyond, as with calls
    answer_memory: int = 256 * 1024 * 1024  # of answers not taken yet; beyond, as with calls
    idle_frames: int = 256  # frames that bring nothing, beside what answers allow; closed beyond
    turn_bytes: int = 64 * 1024  # of answers to one connection before others, each and 1 KiB
    request_timeout: float = 30.0  # for a whole request; DEADLINE_EXCEEDED beyond
    answer_timeout: float = 30.0  # for taking a whole answer; the stream is reset beyond


# A library OS examines each connection whenever the process waits: under Gramine 1.9 that takes 0.2
# to 0.35 µs for each, measured. A status takes 50 µs there, 5 times as long beside 1,000 idle
# connections, 23 times beside 4,000. Beside as many as may stay idle a status takes at most 4 times
# as long; while a flood of new connections lasts, 20 times, which is 1 ms.

CONNECTIONS: Final = 2048
"""Connections to the Client API in a library OS."""

IDLE: Final = 256
"""Those of them that may wait for their client for long."""

WORKLOADS: Final = 1024
"""Connections to the workload API in a library OS."""

IDLE_WORKLOADS: Final = 128
"""Those of them that may wait for their client for long."""

WATCHES: Final = 256
"""Connections of workloads that wait for changes, in a library OS."""


def limits_on(*, library_os: bool) -> tuple[Limits, WorkloadLimits]:
    """Return the limits of both listeners; ``library_os``: the process runs under Gramine.

    No setting of the host changes the limits.
    """
    if not library_os:
        return Limits(), WorkloadLimits()
    return (
        Limits(connections=CONNECTIONS, idle_connections=IDLE),
        WorkloadLimits(connections=WORKLOADS, idle_connections=IDLE_WORKLOADS, watches=WATCHES),
    )

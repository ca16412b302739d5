"""What a client of the HTTP listener may use: sizes, counts, times."""

import msgspec

__all__ = ["Limits"]


class Limits(msgspec.Struct, frozen=True):
    """The limits of one listener. Sizes are bytes, times are seconds.

    Times are measured by a sweep over all connections, so they are exact to ``sweep_interval``.
    """

    request_line: int = 16 * 1024  # 414 beyond
    headers: int = 32 * 1024  # all header lines together; 431 beyond
    header_fields: int = 100  # 431 beyond
    connections: int = 12_000  # closed at once beyond
    body_memory: int = 256 * 1024 * 1024  # bodies in flight, all connections together; 503 beyond
    pipelined_turn: int = 64  # requests of one connection answered before others have their turn
    unread_bytes: int = 64 * 1024  # what is taken from the socket while a request is in flight
    linger_bytes: int = 1024 * 1024  # discarded of an unread body so that the answer arrives
    handshake_timeout: float = 15.0
    header_timeout: float = 30.0  # for a whole head, from its first byte; 408 beyond
    body_timeout: float = 30.0  # for a whole body; 408 beyond
    idle_timeout: float = 30.0  # between requests; also for taking an answer
    slowest_client: int = 32 * 1024  # bytes per second: large answers get the time this takes
    linger_timeout: float = 5.0  # from the last answer to the end of the socket
    sweep_interval: float = 1.0

"""A gRPC call: an HTTP/2 stream with one message of the client, and one or more answers.

A message follows a prefix of 5 bytes: a compression flag (1) and its length (4). Source: gRPC,
"gRPC over HTTP2", "Requests".
"""

import asyncio
import math
import re
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from keyhouse.base.errors import KeyhouseError
from keyhouse.server.net.feed import Feed
from keyhouse.server.net.grpc_status import GrpcStatus

PREFIX: Final = 5  # bytes: gRPC's flag and length before each message

_TIMEOUT: Final = rb"([0-9]{1,8})([HMSmun])"
_SECONDS: Final = {b"H": 3600.0, b"M": 60.0, b"S": 1.0, b"m": 1e-3, b"u": 1e-6, b"n": 1e-9}

Labels = tuple[str, str, str]
"""The labels of a call's counters: method, service, kind."""


class CallClient(NamedTuple):
    """The client of a gRPC connection, for handlers. Both certificates are in DER."""

    identity: bytes | None  # the client's certificate
    server_leaf: bytes  # the server's certificate in the handshake
    kept: dict[str, object]  # values of handlers by the path of a method, for this connection


class Lasting(NamedTuple):
    """The answer of a call that lasts: the ``first`` message, and later messages from a feed.

    ``begin`` receives the feed after the first message was sent, and returns a function. This
    function is called once, at the end of the call.
    """

    first: bytes
    begin: Callable[[Feed], Callable[[], None]]


Method = Callable[[bytes, CallClient], Awaitable[bytes | Lasting]]
"""The handler of a method: receives a message and its sender, returns the answer."""


class CallInvalidError(Exception):
    """A refusal of a call by gRPC itself, before any handler. ``message`` is for people."""

    def __init__(self, status: GrpcStatus, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class Call:
    """A call, from its headers to the last byte of its answer.

    ``stream`` is the number of its HTTP/2 stream. ``method`` is its handler, or None for an unknown
    method. ``deadline`` is on the loop's clock.
    """

    __slots__ = (
        "answer",
        "answer_size",
        "complete",
        "deadline",
        "has_headers",
        "has_slot",
        "is_lasting",
        "labels",
        "method",
        "next",
        "outcome",
        "received",
        "stream",
        "unsubscribe",
        "until",
        "verdict",
    )

    def __init__(self, stream: int, method: Method | None, labels: Labels, deadline: float) -> None:
        self.stream = stream
        self.method = method
        self.labels = labels
        self.deadline = deadline  # of the request, then of the handler, then of the answer
        self.until = math.inf  # the client's own deadline, on the loop's clock
        self.received = bytearray()
        self.complete = False  # the client's half of the stream has ended
        # Set while the handler runs.
        self.outcome: asyncio.Future[bytes | Lasting] | None = None
        self.has_headers = False  # the headers of the answer are sent
        self.has_slot = False  # counted as running or unanswered
        self.answer_size = 0  # bytes of the answer, in memory until all are sent
        self.answer: memoryview | None = None  # unsent rest of the answer
        self.is_lasting = False  # the answers are the messages of a feed
        self.unsubscribe: Callable[[], None] | None = None  # ends the feed
        self.next: bytes | None = None  # the newest message, behind ``answer``
        self.verdict: KeyhouseError | None = None  # the end of a feed, behind its messages

    def append(self, data: bytes, limit: int) -> None:
        """Append ``data`` to the request. ``limit``: the largest message in bytes.

        Raises ``CallInvalidError`` for a compressed, an oversized or a second message.
        """
        received = self.received
        received += data
        if len(received) < PREFIX:
            return
        if received[0] != 0:
            raise CallInvalidError(
                GrpcStatus.UNIMPLEMENTED,
                "the message is compressed (send the message without compression)",
            )
        length = int.from_bytes(received[1:PREFIX], "big")
        if length > limit:
            raise CallInvalidError(
                GrpcStatus.RESOURCE_EXHAUSTED,
                f"the message has {length} bytes, must have at most {limit} (send less data)",
            )
        if len(received) > PREFIX + length:
            raise CallInvalidError(
                GrpcStatus.UNIMPLEMENTED,
                "the request has more than one message (send exactly one message)",
            )

    def message(self) -> bytes:
        """Return the message of the request, without its prefix.

        Raises ``CallInvalidError`` for a stream that ended without a complete message.
        """
        received = self.received
        if len(received) < PREFIX:
            raise CallInvalidError(
                GrpcStatus.UNIMPLEMENTED, "the request has no message (send exactly one message)"
            )
        if len(received) - PREFIX != int.from_bytes(received[1:PREFIX], "big"):
            raise CallInvalidError(
                GrpcStatus.INVALID_ARGUMENT,
                "the message ended too early (send as many bytes as its prefix states)",
            )
        return bytes(received[PREFIX:])


def framed(message: bytes) -> bytes:
    """Return ``message`` after its gRPC prefix of 5 bytes."""
    return b"\0" + len(message).to_bytes(4, "big") + message


def read_timeout(header: bytes) -> float:
    """Return the value of the header ``grpc-timeout`` in seconds.

    The header has at most 8 digits and a unit. Raises ``CallInvalidError`` for other values.
    """
    found = re.fullmatch(_TIMEOUT, header)
    if found is None:
        raise CallInvalidError(
            GrpcStatus.INVALID_ARGUMENT,
            "the header grpc-timeout cannot be read (send 1 to 8 digits, then a unit: H, M, S, m, u"
            " or n)",
        )
    return int(found[1]) * _SECONDS[found[2]]

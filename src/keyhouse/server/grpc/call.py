"""One call: a stream of HTTP/2 that brings one message and is answered with one.

A message is preceded by 5 bytes: whether it is compressed (1), its length (4).
Source: gRPC, "gRPC over HTTP2", "Requests".
"""

import asyncio
import math
import re
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from keyhouse.server.net.grpc_status import Status

PREFIX: Final = 5

_TIMEOUT: Final = re.compile(rb"([0-9]{1,8})([HMSmun])")
_SECONDS: Final = {b"H": 3600.0, b"M": 60.0, b"S": 1.0, b"m": 1e-3, b"u": 1e-6, b"n": 1e-9}

Labels = tuple[str, str, str]
"""Under which a call is counted: method, service, kind."""


class Caller(NamedTuple):
    """The client of a connection. Both certificates are in DER."""

    identity: bytes | None  # the client's certificate
    shown: bytes  # the certificate that the server has shown to it


Method = Callable[[bytes, Caller], Awaitable[bytes]]
"""Takes a message and its sender; returns the answer's message."""


class CallRefusedError(Exception):
    """A call that the protocol itself refuses."""

    def __init__(self, status: Status, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class Call:
    """One call, from its headers to the last byte of its answer."""

    __slots__ = (
        "answer",
        "answer_size",
        "complete",
        "deadline",
        "has_slot",
        "labels",
        "method",
        "outcome",
        "received",
        "stream",
        "until",
    )

    def __init__(self, stream: int, method: Method | None, labels: Labels, deadline: float) -> None:
        self.stream = stream
        self.method = method
        self.labels = labels
        self.deadline = deadline  # for the request, then for running, then for taking the answer
        self.until = math.inf  # the loop's time at which its client waits no more
        self.received = bytearray()
        self.complete = False  # the client will send no more
        self.outcome: asyncio.Future[bytes] | None = None  # while it runs
        self.has_slot = False  # it counts as a call in flight
        self.answer_size = 0  # bytes of it, which are in memory until all are sent
        self.answer: memoryview | None = None  # what of the answer has not been sent

    def take(self, data: bytes, limit: int) -> None:
        """Take bytes in. Refuses what is compressed, too long, or more than one message."""
        received = self.received
        received += data
        if len(received) < PREFIX:
            return
        if received[0] != 0:
            raise CallRefusedError(
                Status.UNIMPLEMENTED, "the message is compressed (send it as it is)"
            )
        length = int.from_bytes(received[1:PREFIX], "big")
        if length > limit:
            raise CallRefusedError(
                Status.RESOURCE_EXHAUSTED, f"the message is longer than {limit} bytes (send less)"
            )
        if len(received) > PREFIX + length:
            raise CallRefusedError(Status.UNIMPLEMENTED, "more than one message came (send one)")

    def message(self) -> bytes:
        """Return the one message. Refuses a call that ended without a whole one."""
        received = self.received
        if len(received) < PREFIX:
            raise CallRefusedError(Status.UNIMPLEMENTED, "no message came (send one)")
        if len(received) - PREFIX != int.from_bytes(received[1:PREFIX], "big"):
            raise CallRefusedError(Status.INVALID_ARGUMENT, "the message ended too early")
        return bytes(received[PREFIX:])


def framed(message: bytes) -> bytes:
    """Return ``message`` as it is sent."""
    return b"\0" + len(message).to_bytes(4, "big") + message


def read_timeout(header: bytes) -> float:
    """Return the seconds in the header ``grpc-timeout``: at most 8 digits and a unit.

    Raises ``CallRefusedError`` for any other.
    """
    found = _TIMEOUT.fullmatch(header)
    if found is None:
        raise CallRefusedError(
            Status.INVALID_ARGUMENT,
            "the header grpc-timeout cannot be read (send at most 8 digits and one of HMSmun)",
        )
    return int(found[1]) * _SECONDS[found[2]]

"""gRPC calls over one HTTP/2 connection, one after the other.

A call is a stream of HTTP/2. The request is HEADERS and DATA. The answer is HEADERS, DATA and
trailing HEADERS with the status. A message follows a prefix of five bytes: compressed (1 byte) and
length (4 bytes, big-endian). h2, the state machine of the coordinator's server as well, turns bytes
into events. A connection carries one call at a time: the next call begins after the end of the call
before. An answer may have any number of messages, so this client also serves calls that the server
answers with a stream.
Source: gRPC, "gRPC over HTTP2".

The TLS session bounds the bytes that a peer can send on a connection (``tls.MOST_RECEIVED``).
"""

import asyncio
import ssl
from collections import deque
from contextlib import suppress
from enum import IntEnum
from typing import Final, Self
from urllib.parse import unquote

from h2 import events
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes, Settings

from keyhouse.base.version import VERSION
from keyhouse.wire.address import Address

_PREFIX: Final = 5  # bytes: gRPC's flag and length before each message
_PIECE: Final = 65_536  # bytes of one read, chosen
_WINDOW: Final = 4 * 1024 * 1024
"""Bytes that the peer may send before an acknowledgement: a whole answer of the interface."""

_LONGEST: Final = 99_999_999  # milliseconds: a timeout has at most 8 digits

_CONTENT_TYPES: Final = frozenset({b"application/grpc", b"application/grpc+proto"})
_CONFIGURATION: Final = H2Configuration(client_side=True, header_encoding=None)


class CallStatus(IntEnum):
    """The status of a call. Source: gRPC, "Status codes and their use in gRPC"."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


# A proxy answers with a status of HTTP. Source: gRPC, "HTTP to gRPC Status Code Mapping".
_OF_HTTP: Final = {
    b"400": CallStatus.INTERNAL,
    b"401": CallStatus.UNAUTHENTICATED,
    b"403": CallStatus.PERMISSION_DENIED,
    b"404": CallStatus.UNIMPLEMENTED,
    b"429": CallStatus.UNAVAILABLE,
    b"502": CallStatus.UNAVAILABLE,
    b"503": CallStatus.UNAVAILABLE,
    b"504": CallStatus.UNAVAILABLE,
}


class CallFailedError(Exception):
    """The peer ended the call with a status other than OK.

    ``message`` and ``code`` are unchecked texts of the peer. ``code``: the trailer
    ``keyhouse-code``, or empty.
    """

    def __init__(self, status: CallStatus, message: str, code: str = "") -> None:
        super().__init__(status, message)
        self.status = status
        self.message = message
        self.code = code


class CallEndedError(ConnectionError):
    """The connection or the stream ended before the answer was complete."""


class AnswerMalformedError(Exception):
    """The answer of the peer does not have the form of gRPC."""


class GrpcClient:
    """A connection for calls: open it as a context, send a request, and receive the answers.

    ``context``: the TLS context of the client.
    """

    def __init__(self, address: Address, context: ssl.SSLContext) -> None:
        self._address, self._context = address, context
        self._http2 = H2Connection(_CONFIGURATION)
        self._http2.local_settings = Settings(
            client=True,
            initial_values={
                SettingCodes.ENABLE_PUSH: 0,
                SettingCodes.INITIAL_WINDOW_SIZE: _WINDOW,
            },
        )
        self._http2.initiate_connection()
        self._http2.increment_flow_control_window(_WINDOW)
        self._stream = 0
        self._received = bytearray()  # of a message that is not complete
        self._messages: deque[bytes] = deque()
        self._ended = True
        self._status: CallFailedError | CallStatus | None = None

    async def __aenter__(self) -> Self:
        """Connect. Raises ``OSError``, also for a failed handshake."""
        self._reader, self._writer = await asyncio.open_connection(
            self._address.host, self._address.port, ssl=self._context
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()

    async def only(self, method: str, message: bytes, timeout: float) -> bytes:  # noqa: ASYNC109 for the server
        """Call ``method`` with the request ``message``; return the only message of the answer.

        ``timeout`` is in seconds. Raises the errors of ``receive``.
        """
        await self.send(method, message, timeout)
        answer = await self.receive()
        if answer is None or await self.receive() is not None:
            raise AnswerMalformedError("the answer does not have exactly one message")
        return answer

    async def send(self, method: str, message: bytes, timeout: float) -> None:  # noqa: ASYNC109 for the server
        """Begin a call, and send the only message of its request.

        ``method`` is the path of the call, such as ``/rpc.Marble/Activate``. The server ends the
        call after ``timeout`` seconds. Raises as ``receive``.
        """
        assert self._ended, "a call is not complete"  # noqa: S101 a fault of the caller
        self._stream = self._http2.get_next_available_stream_id()
        self._received.clear()
        self._messages.clear()
        self._ended, self._status = False, None
        self._http2.send_headers(self._stream, self._headers(method, timeout))
        rest = b"\0" + len(message).to_bytes(_PREFIX - 1, "big") + message
        while rest and not self._ended:
            # Settings of the peer can make the window negative (RFC 9113, 6.9.2).
            window = max(0, self._http2.local_flow_control_window(self._stream))
            piece = rest[: min(window, self._http2.max_outbound_frame_size)]
            if piece:
                rest = rest[len(piece) :]
                self._http2.send_data(self._stream, piece, end_stream=not rest)
                self._writer.write(self._http2.data_to_send())
                await self._writer.drain()
            else:
                await self._more()

    async def receive(self) -> bytes | None:
        """Return the next message of the answer, or None after the last message.

        Raises ``CallFailedError``, ``CallEndedError``, ``AnswerMalformedError``, or ``OSError``.
        """
        while not self._messages and not self._ended:
            await self._more()
        if self._messages:
            return self._messages.popleft()
        if isinstance(self._status, CallFailedError):
            raise self._status
        if self._received:
            raise AnswerMalformedError("the answer ends inside a message")
        return None

    def cancel(self) -> None:
        """End the present call, and drop its further answers. The next call may begin."""
        if not self._ended:
            self._ended = True
            with suppress(ProtocolError):  # the peer has ended the connection
                self._http2.reset_stream(self._stream, ErrorCodes.CANCEL)
            self._writer.write(self._http2.data_to_send())

    def _headers(self, method: str, timeout: float) -> list[tuple[str, str]]:
        return [
            (":method", "POST"),
            (":scheme", "https"),
            (":path", method),
            (":authority", str(self._address)),
            ("grpc-timeout", f"{min(max(1, int(timeout * 1000)), _LONGEST)}m"),
            ("te", "trailers"),
            ("content-type", "application/grpc"),
            ("user-agent", f"keyhouse/{VERSION}"),
        ]

    async def _more(self) -> None:
        """Receive bytes from the peer, and act on the HTTP/2 events in these bytes."""
        data = await self._reader.read(_PIECE)
        if not data:
            raise CallEndedError
        try:
            happened = self._http2.receive_data(data)
        except ProtocolError as error:
            raise CallEndedError from error
        for event in happened:
            self._apply(event)
        # Without ``drain``, which raises if the peer closed after its answer.
        self._writer.write(self._http2.data_to_send())

    def _apply(self, event: events.Event) -> None:
        if getattr(event, "stream_id", self._stream) not in {0, self._stream}:
            return  # of a call that has ended
        match event:
            case events.ResponseReceived():
                self._begin(dict(event.headers or ()))
            case events.DataReceived():
                self._http2.acknowledge_received_data(event.flow_controlled_length, self._stream)
                self._received += event.data or b""
                self._split()
            case events.TrailersReceived():
                self._status = _status(dict(event.headers or ()))
            case events.StreamEnded():
                self._ended = True
                if self._status is None:
                    missing = "Missing grpc-status header"
                    self._status = CallFailedError(CallStatus.UNKNOWN, missing)
            case events.StreamReset() | events.ConnectionTerminated() if not self._ended:
                raise CallEndedError

    def _begin(self, headers: dict[bytes, bytes]) -> None:
        """Check the first headers of the answer; they have the status if no message follows."""
        http = headers.get(b":status", b"")
        if http != b"200":
            status = _OF_HTTP.get(http, CallStatus.UNKNOWN)
            raise CallFailedError(status, f"Received :status = {_text(http)!r}")
        content_type = headers.get(b"content-type")
        if content_type is None:
            raise CallFailedError(CallStatus.UNKNOWN, "Missing content-type header")
        if content_type not in _CONTENT_TYPES:
            invalid = f"Invalid content-type: {_text(content_type)!r}"
            raise CallFailedError(CallStatus.UNKNOWN, invalid)
        if b"grpc-status" in headers:
            self._status = _status(headers)

    def _split(self) -> None:
        """Move complete messages from the received bytes to the queue of messages."""
        while len(self._received) >= _PREFIX:
            if self._received[0]:
                raise AnswerMalformedError("a message of the answer is compressed")
            end = _PREFIX + int.from_bytes(self._received[1:_PREFIX], "big")
            if len(self._received) < end:
                return
            self._messages.append(bytes(self._received[_PREFIX:end]))
            del self._received[:end]


def _status(headers: dict[bytes, bytes]) -> CallFailedError | CallStatus:
    """Return the status OK in ``headers``, or the error for a different or missing status."""
    written = headers.get(b"grpc-status")
    if written is None:
        return CallFailedError(CallStatus.UNKNOWN, "Missing grpc-status header")
    try:
        status = CallStatus(int(written))
    except ValueError:
        return CallFailedError(CallStatus.UNKNOWN, f"Invalid grpc-status: {_text(written)!r}")
    if status is CallStatus.OK:
        return status
    message = unquote(_text(headers.get(b"grpc-message", b"")))
    return CallFailedError(status, message, _text(headers.get(b"keyhouse-code", b"")))


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")

"""Bytes of HTTP/2 for a connection of the workload API: the live object, on a transport in memory.

Oracle: the connection raises no exception. It writes only whole frames, and only on streams that a
client can open. A lost connection has released every stream, call and byte. A connection answers
an unchanged call. A failure of h2 itself ends the connection, and is an outcome, not a finding.
"""

import asyncio
from collections.abc import Callable
from random import Random
from typing import ClassVar, Final

from fuzz.mutations import mutated
from fuzz.target import FindingError, Target
from h2.config import H2Configuration
from h2.connection import H2Connection
from hyperframe.exceptions import HyperframeError
from hyperframe.frame import Frame

from keyhouse.base.errors import BadRequestError
from keyhouse.base.log import log
from keyhouse.server.grpc.call import CallClient
from keyhouse.server.grpc.connection import GrpcConnection
from keyhouse.server.grpc.service import GrpcService
from keyhouse.server.net.limits import WorkloadLimits

__all__ = ["FrameTarget"]

_PATH: Final = "/rpc.Marble/Activate"
_HEADERS: Final = (
    (":method", "POST"),
    (":scheme", "https"),
    (":path", _PATH),
    (":authority", "coordinator"),
    ("content-type", "application/grpc"),
    ("te", "trailers"),
)
_ODD_HEADERS: Final = (
    *(("grpc-encoding", "gzip"), ("grpc-timeout", "1n"), ("grpc-timeout", "99999999H")),
    *(("grpc-timeout", "x"), ("content-type", "text/plain"), (":path", "/x"), ("te", "gzip")),
    *((":method", "GET"), ("a", "b" * 5000), ("cookie", "a"), ("content-length", "3"), ("é", "x")),
)
_MESSAGES: Final = (b"now", b"later", b"bad", b"", b"x" * 3000, b"much")
_FRAME_HEAD: Final = 9
_TURNS: Final = 4  # turns of the event loop until methods end


class _Transport:
    """A transport in memory. It records written bytes and the close."""

    identity: bytes | None = b"a certificate"
    server_leaf: bytes = b"a certificate of the server"

    def __init__(self) -> None:
        self.written = bytearray()
        self.closed = False

    def pause_reading(self) -> None:
        """Ignore the call: this transport reads nothing."""

    def resume_reading(self) -> None:
        """Ignore the call: this transport reads nothing."""

    def write(self, data: bytes) -> None:
        """Record the bytes."""
        self.written += data

    def close(self, linger: int = 0) -> None:
        """Record the close."""
        del linger
        self.closed = True

    def abort(self) -> None:
        """Record the close."""
        self.closed = True


async def _activate(message: bytes, caller: CallClient) -> bytes:
    """Answer at once, later, with a refusal, or with a long answer. ``message`` decides."""
    del caller
    if message.startswith(b"bad"):
        raise BadRequestError("a refusal")
    if message.startswith(b"later"):
        await asyncio.sleep(0)
    return b"an answer" * (20_000 if message.startswith(b"much") else 1)


class FrameTarget(Target):
    """Sessions of an HTTP/2 client with changed frames."""

    name: ClassVar[str] = "frames"
    about: ClassVar[str] = "HTTP/2 and gRPC frames against a live connection"

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(self._note_exception)
        self._failures: list[str] = []  # failures of h2; each ends a connection
        self._broken: list[str] = []  # failures of Keyhouse
        self._logging = log.sink
        log.sink = self._note

    def draw(self, chance: Random) -> bytes:
        """Return the bytes of a session after ``!`` for an unchanged session, else after ``?``."""
        if chance.random() < 0.02:
            return b"!" + _session(chance, odd=False)
        session = _session(chance, odd=chance.random() < 0.7)
        frames = _cut_frames(session)
        for _ in range(chance.choice((0, 1, 1, 2))):
            frames = chance.choice(_CHANGES)(frames, chance)
        wire = b"".join(frames)
        return b"?" + (mutated(wire, chance) if chance.random() < 0.3 else wire)

    def judge(self, case: bytes) -> str:
        """Play the session."""
        self._failures.clear()
        self._broken.clear()
        transport, service = self._loop.run_until_complete(_played(case[1:]))
        if self._broken:
            raise FindingError(f"a failure was logged: {self._broken[0]}")
        held = [pool.held for pool in (service.streams, service.calls, service.memory)]
        if any(held) or len(service):
            raise FindingError("a lost connection has not released all streams, calls and bytes")
        kinds = _frames_written(bytes(transport.written))
        if case.startswith(b"!") and (transport.closed or b"grpc-status" not in transport.written):
            raise FindingError("an unchanged call has no answer")
        if self._failures:
            return f"ended: {self._failures[0]}"
        return f"{'ended' if transport.closed else 'open'}: {kinds}"

    def close(self) -> None:
        """Close the loop."""
        self._loop.close()
        log.sink = self._logging

    def _note(self, level: str, event: str, fields: dict[str, object]) -> None:
        if level == "error":
            noted = self._failures if event == "connection failed" else self._broken
            noted.append(f"{event}: {fields.get('error')}")

    def _note_exception(self, _loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        self._broken.append(repr(context.get("exception") or context.get("message")))


async def _played(wire: bytes) -> tuple[_Transport, GrpcService]:
    service = GrpcService({_PATH: _activate}, WorkloadLimits())
    connection, transport = GrpcConnection(service, 0), _Transport()
    connection.connecting(transport)
    connection.connection_made()
    size = max(1, len(wire) // (1 + wire[-1] % 5)) if wire else 1
    for at in range(0, len(wire), size):
        if transport.closed:
            break
        connection.data_received(wire[at : at + size])
        if at // size % 3 == 1:
            connection.pause_writing()
        await asyncio.sleep(0)
        connection.resume_writing()
    for _ in range(_TURNS):
        await asyncio.sleep(0)
    connection.expire(service.now)
    connection.connection_lost(None)
    if service.waiting:
        await asyncio.wait(service.waiting)
    return transport, service


def _session(chance: Random, *, odd: bool) -> bytes:
    """Return the bytes of a client for some calls."""
    client = H2Connection(
        H2Configuration(
            header_encoding="utf-8",
            validate_outbound_headers=False,
            normalize_outbound_headers=False,
        )
    )
    client.initiate_connection()
    for _ in range(chance.choice((1, 1, 2, 3))):
        stream = client.get_next_available_stream_id()
        headers = list(_HEADERS)
        if odd and chance.random() < 0.5:
            headers.append(chance.choice(_ODD_HEADERS))
        client.send_headers(stream, headers, end_stream=odd and chance.random() < 0.05)
        message = chance.choice(_MESSAGES if odd else _MESSAGES[:4])
        framed = b"\0" + len(message).to_bytes(4) + message
        if odd and chance.random() < 0.3:
            framed = mutated(framed, chance)
        if client.local_flow_control_window(stream) >= len(framed):
            _send(client, stream, framed, chance, odd=odd)
    return client.data_to_send()


def _send(client: H2Connection, stream: int, framed: bytes, chance: Random, *, odd: bool) -> None:
    if client.streams[stream].state_machine.state.name != "OPEN":
        return
    middle = chance.randrange(len(framed) + 1)
    client.send_data(stream, framed[:middle])
    if odd and chance.random() < 0.2:
        chance.choice((client.reset_stream, client.end_stream))(stream)
        return
    if odd and chance.random() < 0.2:
        client.ping(b"12345678")
    client.send_data(stream, framed[middle:], end_stream=not odd or chance.random() < 0.9)


_PREFACE: Final = 24


def _cut_frames(session: bytes) -> list[bytes]:
    """Return a list with the preface and each frame."""
    frames, at = [session[:_PREFACE]], _PREFACE
    while at < len(session):
        end = at + _FRAME_HEAD + int.from_bytes(session[at : at + 3])
        frames.append(session[at:end])
        at = end
    return frames


_Frames = list[bytes]


def _swap(frames: _Frames, chance: Random) -> _Frames:
    first, second = (chance.randrange(len(frames)) for _ in range(2))
    frames = list(frames)
    frames[first], frames[second] = frames[second], frames[first]
    return frames


def _repeat(frames: _Frames, chance: Random) -> _Frames:
    at = chance.randrange(len(frames))
    return [*frames[:at], *[frames[at]] * chance.choice((2, 2, 60, 400)), *frames[at + 1 :]]


def _drop(frames: _Frames, chance: Random) -> _Frames:
    at = chance.randrange(len(frames))
    return frames[:at] + frames[at + 1 :]


def _reshape(frames: _Frames, chance: Random) -> _Frames:
    """Change type, flags, stream or content of a frame."""
    if len(frames) < 2:
        return frames
    at = chance.randrange(1, len(frames))
    head, content = bytearray(frames[at][:_FRAME_HEAD]), frames[at][_FRAME_HEAD:]
    field = chance.choice((3, 4, 4, 8, 5))
    head[field] = chance.choice((chance.randrange(256), chance.randrange(12)))
    if chance.random() < 0.5:
        content = mutated(content, chance)
    head[0:3] = len(content).to_bytes(3)
    return [*frames[:at], bytes(head) + content, *frames[at + 1 :]]


def _add(frames: _Frames, chance: Random) -> _Frames:
    kind, flags = chance.randrange(12), chance.choice((0, 1, 4, 5, 8, 0x20, 0xFF))
    size = chance.choice((0, 4, 5, 6, 8, 12, 36, 2000))
    stream = chance.choice((0, 1, 1, 2, 3, 5, 2**31 - 1))
    head = size.to_bytes(3) + bytes([kind, flags]) + stream.to_bytes(4)
    at = chance.randrange(1, len(frames) + 1)
    return [*frames[:at], head + chance.randbytes(size), *frames[at:]]


_CHANGES: Final[tuple[Callable[[_Frames, Random], _Frames], ...]] = (
    *(_swap, _repeat, _drop, _reshape, _reshape, _reshape, _add, _add),
)


def _frames_written(written: bytes) -> str:
    """Return the kinds of written frames. Require whole frames on streams of the client."""
    kinds, at = set(), 0
    while at < len(written):
        try:
            frame, length = Frame.parse_frame_header(memoryview(written[at : at + _FRAME_HEAD]))
            frame.parse_body(memoryview(written[at + 9 : at + 9 + length]))
        except (HyperframeError, ValueError) as error:
            raise FindingError(f"the written bytes are not a frame: {error}") from None
        if at + _FRAME_HEAD + length > len(written):
            raise FindingError("the connection wrote a part of a frame only")
        if frame.stream_id % 2 == 0 and frame.stream_id:
            raise FindingError(f"a frame on stream {frame.stream_id}, which no client can open")
        kinds.add(type(frame).__name__.removesuffix("Frame"))
        at += _FRAME_HEAD + length
    return " ".join(sorted(kinds))

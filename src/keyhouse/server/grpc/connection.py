"""The life of a gRPC connection, from the handshake to the end of the socket.

Bytes go through the ``FrameMeter``, then frame by frame through h2. The events of h2 change the
calls. After some frames, all other ready connections have their turn, and this connection reads
nothing until then. Each call has a deadline without a timer: the listener checks all connections
periodically. While the socket accepts no output, the transport reads no input, so the output of h2
cannot accumulate.

    HANDSHAKE ─▶ OPEN ─idle, stop─▶ LEAVING ─no call left─▶ CLOSING
      every phase ─protocol violation, deadline, end of the client─▶ CLOSING
"""

import asyncio
import math
from enum import Enum, auto
from typing import Final

from h2.errors import ErrorCodes
from h2.events import ConnectionTerminated, Event
from h2.exceptions import H2Error

from keyhouse.base.log import log
from keyhouse.server.grpc.call import CallClient
from keyhouse.server.grpc.calls import GrpcCalls
from keyhouse.server.grpc.http2 import A_TURN, DATA, FrameMeter, Frames, Http2, cost, kind
from keyhouse.server.grpc.service import GrpcService
from keyhouse.server.net.transport import Transport

_PROBE: Final = b"keyhouse"  # RFC 9113, 6.7: 8 bytes


class _ConnectionPhase(Enum):
    HANDSHAKE = auto()
    OPEN = auto()
    LEAVING = auto()  # answers running calls, accepts no new call
    CLOSING = auto()


class GrpcConnection:
    """The connection of a client.

    ``generation`` is the number of the listener's TLS context at the start of the connection.
    """

    def __init__(self, service: GrpcService, generation: int) -> None:
        self.generation = generation
        self._service = service
        self._limits = service.limits
        self._transport: Transport | None = None
        self._phase = _ConnectionPhase.HANDSHAKE
        self._since = service.now  # start of the connection
        self._deadline = math.inf  # of the handshake, or of the end
        self._stuck = math.inf  # deadline while the client does not read answers
        self._received = service.now  # time of the last bytes of the client
        self._has_probed = False  # a PING waits for its acknowledgement
        self._meter = FrameMeter(service.limits.header_block, service.limits.idle_frames)
        self._frames = Frames()
        self._turn = A_TURN  # remaining frames of the turn
        self._rests = False  # the next turn is scheduled
        self._flushes = False  # the next flush is scheduled
        self._http2: Http2 | None = None
        self._ended: Http2 | None = None  # the same object, after the last output
        self._calls: GrpcCalls | None = None
        service.add(self)

    # Calls of the transport.

    def connecting(self, transport: Transport) -> None:
        """Start the deadline of the handshake."""
        self._transport = transport
        self._deadline = self._service.after(self._limits.handshake_timeout)
        if self._service.is_unwelcome(self.generation):
            transport.abort()

    def connection_made(self) -> None:
        """Start HTTP/2 after the handshake."""
        self._phase = _ConnectionPhase.OPEN
        self._deadline = math.inf
        self._http2 = Http2(self._limits.metadata, self._limits.streams)
        transport = self._transport
        self._calls = GrpcCalls(
            self._service,
            self._http2,
            self._meter,
            CallClient(None, b"", {})
            if transport is None
            else CallClient(transport.identity, transport.server_leaf, {}),
            flush=self._flush,
            settled=self._after_calls,
            close=self.close,
            protect=self._protect,
        )
        # The settings leave with the answer to the client's first bytes, in one TLS record. The
        # client sends its own settings at once (RFC 9113, 3.4).
        self._http2.initiate_connection()
        if self._service.is_unwelcome(self.generation):
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Release the calls. A running handler is cancelled at its next await."""
        del exc
        if self._phase is _ConnectionPhase.HANDSHAKE:
            self._service.failed_handshakes += 1
        self._transport = None
        self._enter_closing()
        if self._ended is not None:
            self._ended.release()
        self._service.remove(self)

    def eof_received(self) -> None:
        """End, because the client has closed the connection."""
        self._enter_closing()

    def data_received(self, data: bytes) -> None:
        """Handle ``data``, decrypted bytes of the client, and answer complete requests."""
        if self._http2 is None:
            return
        self._received, self._has_probed = self._service.now, False
        if not self._meter.feed(data):
            self._break(ErrorCodes.ENHANCE_YOUR_CALM)
            return
        self._frames.add(data)
        self._work()

    def pause_writing(self) -> None:
        """Stop sending answers, because the client does not read."""
        self._stuck = self._service.after(self._limits.answer_timeout)
        if self._calls is not None:
            self._calls.is_blocked = True

    def resume_writing(self) -> None:
        """Continue sending answers: the socket is empty."""
        self._stuck = math.inf
        if self._calls is not None:
            self._calls.is_blocked = False
            self._calls.send_more()
            self._after_calls()

    # Calls of the listener.

    def waits_since(self) -> float:
        """Return the loop's time at the end of the last call.

        Before the first call, return the time at the start of the connection. The time is infinite
        while a call runs or lasts.
        """
        if self._transport is None:
            return math.inf
        return self._since if self._calls is None else self._calls.waits_since()

    def expire(self, now: float) -> None:
        """End the calls past their deadline, or the whole connection if it idles too long.

        ``now``: the loop's time in seconds.
        """
        calls = self._calls
        if now >= min(self._stuck, self._deadline):
            self.abort()
        elif calls:
            calls.expire(now)
            if calls.lasting:
                self._probe(now)
            self._after_calls()
        elif calls is not None and now >= calls.idle_since + self._limits.idle_timeout:
            self.close()

    def close(self) -> None:
        """Accept no new calls, answer running calls, then close."""
        if self._phase is _ConnectionPhase.HANDSHAKE:
            self.abort()
        elif (
            self._phase is _ConnectionPhase.OPEN
            and self._http2 is not None
            and self._calls is not None
        ):
            self._phase = _ConnectionPhase.LEAVING
            self._calls.admits = False
            self._calls.end_lasting()
            self._flush()
            self._write(self._http2.going_away())
            self._after_calls()

    def abort(self) -> None:
        """Close at once. Unsent bytes are lost."""
        if self._transport is not None:
            self._transport.abort()

    # Internals.

    def _protect(self, begin: bool) -> bool:  # noqa: FBT001 - see ``GrpcCalls``
        """Exempt the connection from eviction, or end the exemption if ``begin`` is False.

        Return False if the listener already has the largest number of exempt connections.
        """
        if begin:
            return self._service.protect(self)
        self._service.expose(self)
        return True

    def _probe(self, now: float) -> None:
        """Send a PING to a silent client of a lasting call. Abort if it does not answer.

        Without PINGs, the connection of a machine without power would never end. ``now``:
        the loop's time in seconds.
        """
        limits, silent = self._limits, now - self._received
        if silent >= limits.silence + limits.answer_timeout:
            self.abort()
        elif silent >= limits.silence and not self._has_probed and self._http2 is not None:
            self._has_probed = True
            self._http2.ping(_PROBE)

    def _work(self) -> None:
        """Handle received frames until the end of the turn."""
        while self._http2 is not None and self._turn > 0 and (frame := self._frames.next()):
            self._turn -= cost(frame)
            self._receive(self._http2, frame)
        if self._http2 is None:
            return
        if self._turn <= 0 and not self._rests and self._transport is not None:
            self._rests = True
            self._transport.pause_reading()
            asyncio.get_running_loop().call_soon(self._begin_turn)
        if self._calls:
            self._flush_with_answers()
        else:
            self._after_calls()

    def _flush_with_answers(self) -> None:
        """Send pending output after two turns of the event loop.

        A handler that does not wait has answered by then: its task runs in the first turn, and the
        answer follows in the second turn. So the answer shares a TLS record and a packet with
        frames of the protocol. A handler that waits delays these frames by two turns, some
        microseconds.
        """
        if not self._flushes:
            self._flushes = True
            loop = asyncio.get_running_loop()
            loop.call_soon(loop.call_soon, self._flush_now)

    def _flush_now(self) -> None:
        self._flushes = False
        self._after_calls()

    def _begin_turn(self) -> None:
        self._rests = False
        self._turn = A_TURN
        self._work()
        if not self._rests and self._transport is not None:
            self._transport.resume_reading()

    def _receive(self, http2: Http2, frame: bytes) -> None:
        """Handle a received HTTP/2 frame."""
        try:
            events = http2.receive_data(frame)
        except H2Error:  # h2 has queued a frame with the reason
            self._break()
            return
        except Exception as error:  # noqa: BLE001 - bytes of an anonymous client end its connection only
            log.error("connection failed", error=type(error).__qualname__)
            self._break(ErrorCodes.PROTOCOL_ERROR)
            return
        # DATA of an ended stream: h2 answers each such frame of 9 bytes with another reset.
        if not events and kind(frame) == DATA and not self._meter.charge(1):
            self._break(ErrorCodes.ENHANCE_YOUR_CALM)
            return
        for event in events:
            self._receive_event(event)

    def _receive_event(self, event: Event) -> None:
        if isinstance(event, ConnectionTerminated):  # h2 answers nothing after the GOAWAY
            self._enter_closing()
            if self._transport is not None:
                self._transport.close()
        elif self._calls is not None:
            self._calls.receive_event(event)

    def _after_calls(self) -> None:
        """Send pending output. Close the connection if it is leaving and has no calls."""
        self._flush()
        if self._phase is _ConnectionPhase.LEAVING and not self._calls:
            self._enter_closing()
            if self._transport is not None:
                self._transport.close()

    def _break(self, code: ErrorCodes | None = None) -> None:
        """End the connection after a violation of the protocol, with a GOAWAY frame.

        Continue to read, so that the client receives this frame. ``code``: the reason in the frame.
        None: h2 has already prepared the frame.
        """
        self._flush()
        if self._http2 is not None and code is not None:
            self._write(self._http2.going_away(code))
        self._enter_closing()
        if self._transport is not None:
            self._transport.close(self._limits.linger_bytes)

    def _enter_closing(self) -> None:
        if self._phase is _ConnectionPhase.CLOSING:
            return
        self._phase = _ConnectionPhase.CLOSING
        self._deadline = self._service.after(self._limits.linger_timeout)
        if self._calls is not None:
            self._calls.forget()
        self._ended, self._http2, self._calls = self._http2, None, None

    def _flush(self) -> None:
        """Send the bytes that h2 has prepared."""
        if self._http2 is not None:
            data = self._http2.data_to_send()
            if data:
                self._write(data)

    def _write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

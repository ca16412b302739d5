"""The calls of a connection: streams with one message of the client, and one or more answers.

A call is *received* until its message is complete. Then it *runs* as a future of its handler. Then
it is *answered*: headers, message, trailers, as fast as the client's windows and socket accept
them. A call ends with its answer, with a reset from either side, or with the connection.

A *lasting* call stays open between its messages, and then holds neither a slot nor memory of a
request. If the client reads too slowly, only the newest message waits. A client that never reads
is reset, as with any answer.
"""

import asyncio
import contextlib
import math
import secrets
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from h2.errors import ErrorCodes
from h2.events import (
    DataReceived,
    Event,
    RemoteSettingsChanged,
    RequestReceived,
    StreamEnded,
    StreamReset,
    WindowUpdated,
)
from h2.exceptions import H2Error

from keyhouse.base.errors import KeyhouseError, UnavailableError, release_frames
from keyhouse.base.log import log
from keyhouse.server.grpc.call import (
    Call,
    CallClient,
    CallInvalidError,
    Lasting,
    framed,
    read_timeout,
)
from keyhouse.server.grpc.http2 import FrameMeter, Http2
from keyhouse.server.grpc.service import GrpcService
from keyhouse.server.net.error_mapping import OutdatedConnectionError, wording
from keyhouse.server.net.fair_share import Share
from keyhouse.server.net.grpc_status import GrpcStatus, as_message

_FRAME: Final = 16 * 1024  # bytes of data: the least maximum of RFC 9113
_ALLOWED_BY_ANSWER: Final = 16  # useless frames that a complete answer earns
_ALLOWING_BYTES: Final = 1024  # bytes of an answer that earn one more useless frame
_LEAST_COST: Final = 1024  # bytes of a turn that each answer costs, beside its own bytes
_TOO_SLOW: Final = "the request took too long to arrive (send the request again, without pauses)"
_TOO_MANY: Final = "too many requests are being sent (try again later)"
_TOO_MANY_ANSWERS: Final = "too many unread answers wait for the clients (try again later)"
_ENDING: Final = "the coordinator ends this connection"
_CONNECT: Final = "connect again"
_TOO_LATE: Final = "the client's deadline has passed (call again with a later deadline)"

_Header = tuple[str, str]


class WatchesFullError(UnavailableError):
    """The listener has the maximum of connections with lasting calls."""

    code = "watches-full"


class GrpcCalls:
    """The open calls of a connection. ``caller`` is its client, and ``meter`` limits its frames.

    ``flush`` sends the output of ``http2``. ``settled`` is called after a change of a call without
    new bytes of the client, such as the result of a handler. ``close`` is called if the client has
    to connect again. Before the first lasting call, ``protect(True)`` exempts the connection from
    eviction, or returns False at the limit of such connections. ``protect(False)`` ends the
    exemption after the last lasting call.
    ``idle_since`` is the loop's time at the end of the last call.
    """

    def __init__(
        self,
        service: GrpcService,
        http2: Http2,
        meter: FrameMeter,
        caller: CallClient,
        *,
        flush: Callable[[], None],
        settled: Callable[[], None],
        close: Callable[[], None],
        protect: Callable[[bool], bool],
    ) -> None:
        self.idle_since = service.now
        self.admits = True  # accepts new calls
        self.is_blocked = False  # the socket accepts no bytes at present
        self._service = service
        self._http2 = http2
        self._meter = meter
        self._caller = caller
        self._flush = flush
        self._settled = settled
        self._close = close
        self._protect = protect
        self.lasting = 0  # number of lasting calls
        self._calls: dict[int, Call] = {}
        self._streams = Share(service.streams)
        self._slots = Share(service.calls)
        self._memory = Share(service.memory)
        self._answers = Share(service.answers)
        self._turn = service.limits.turn_bytes  # remaining bytes of the turn
        self._yielded = False

    def __len__(self) -> int:
        return len(self._calls)

    def waits_since(self) -> float:
        """Return the loop's time at the end of the last call.

        The result is infinity while a call runs, or while a stream of ``Watch`` is open.
        """
        runs = any(call.outcome is not None for call in self._calls.values())
        return math.inf if runs or self.lasting else self.idle_since

    def receive_event(self, event: Event) -> None:
        """Handle ``event``, which h2 reports about a stream of the client."""
        match event:
            case RequestReceived() | DataReceived() | StreamEnded():
                self._receive_request(event)
            case StreamReset():
                self._reset_by_client(event.stream_id)
            case WindowUpdated() | RemoteSettingsChanged():
                self.send_more()
            case _:
                pass

    def send_more(self) -> None:
        """Continue the answers that the windows of the client interrupted."""
        for call in tuple(self._calls.values()):
            if call.answer is not None:
                self._send(call)

    def expire(self, now: float) -> None:
        """End the calls whose deadline has passed at ``now``, the loop's time."""
        for call in tuple(self._calls.values()):
            if now < call.deadline:
                continue
            if call.answer is None:
                message = _TOO_LATE if call.complete else _TOO_SLOW
                self._refuse(call, GrpcStatus.DEADLINE_EXCEEDED, message)
            else:
                self._reset(call.stream, ErrorCodes.CANCEL)
                self._end(call, GrpcStatus.DEADLINE_EXCEEDED)

    def end_lasting(self) -> None:
        """End the lasting calls with an error, because the connection ends.

        The error asks the client to connect again.
        """
        for call in tuple(self._calls.values()):
            if call.is_lasting:
                self._end_feed(call, UnavailableError(_ENDING, hint=_CONNECT))

    def forget(self) -> None:
        """End all calls, because the connection has ended."""
        self.admits = False
        for call in tuple(self._calls.values()):
            self._end(call, GrpcStatus.CANCELED)

    # Requests.

    def _receive_request(self, event: RequestReceived | DataReceived | StreamEnded) -> None:
        try:
            match event:
                case RequestReceived():
                    self._begin(event)
                case DataReceived():
                    self._receive(event)
                case StreamEnded():
                    self._run(event.stream_id)
        except CallInvalidError as refused:
            self._refuse(self._calls[event.stream_id], refused.status, refused.message)

    def _begin(self, event: RequestReceived) -> None:
        service, stream = self._service, event.stream_id
        if not self.admits or not self._streams.acquire(1, self._lose_stream):
            self._reset(stream, ErrorCodes.REFUSED_STREAM)
            return
        headers = dict(event.headers)
        path = headers.get(b":path", b"").decode("latin-1")
        call = Call(
            stream,
            service.methods.get(path),
            service.counts.labels(path),
            service.after(service.limits.request_timeout),
        )
        self._calls[stream] = call
        service.counts.started[call.labels] += 1
        if headers.get(b":method") != b"POST":
            self._answer_as_http(call, 405)
        elif not headers.get(b"content-type", b"").startswith(b"application/grpc"):
            self._answer_as_http(call, 415)
        elif call.method is None:
            raise CallInvalidError(
                GrpcStatus.UNIMPLEMENTED,
                "the server has no method at this path (call a method of the workload API)",
            )
        elif headers.get(b"grpc-encoding", b"identity") != b"identity":
            raise CallInvalidError(
                GrpcStatus.UNIMPLEMENTED,
                "the request is compressed (send the request without compression)",
            )
        elif b"grpc-timeout" in headers:
            seconds = read_timeout(headers[b"grpc-timeout"])
            call.until = asyncio.get_running_loop().time() + seconds

    def _receive(self, event: DataReceived) -> None:
        stream, length = event.stream_id, event.flow_controlled_length
        if length:
            self._http2.acknowledge_received_data(length, stream)
        call = self._calls.get(stream)
        if call is None or call.complete:
            return
        self._hold(len(event.data))
        call.append(event.data, self._service.limits.message)

    def _hold(self, count: int) -> None:
        """Reserve memory for ``count`` more bytes of requests. Raises ``CallInvalidError``."""
        most = self._service.limits.connection_bytes
        if self._memory.held + count > most:
            raise CallInvalidError(
                GrpcStatus.RESOURCE_EXHAUSTED,
                f"the requests in flight on this connection have more than {most} bytes"
                " (wait for answers before the next request)",
            )
        if not self._memory.acquire(count, self._lose_bytes):
            raise CallInvalidError(GrpcStatus.UNAVAILABLE, _TOO_MANY)

    def _run(self, stream: int) -> None:
        """Start the handler of the complete request on the HTTP/2 stream number ``stream``."""
        service, call = self._service, self._calls.get(stream)
        if call is None or call.method is None:
            return
        call.complete = True
        message = call.message()
        if call.until < math.inf and asyncio.get_running_loop().time() >= call.until:
            raise CallInvalidError(GrpcStatus.DEADLINE_EXCEEDED, _TOO_LATE)
        if not self._slots.acquire(1, self._lose_slot):
            raise CallInvalidError(
                GrpcStatus.UNAVAILABLE, "too many calls are in flight (try again later)"
            )
        service.counts.received[call.labels] += 1
        call.has_slot = True
        call.deadline = call.until
        call.outcome = service.wait_for(call.method(message, self._caller))
        call.outcome.add_done_callback(partial(self._ran, call))

    def _ran(self, call: Call, outcome: "asyncio.Future[bytes | Lasting]") -> None:
        """Send the result of the handler (``outcome``), or its error, as the answer of the call."""
        call.outcome = None
        error = asyncio.CancelledError() if outcome.cancelled() else outcome.exception()
        if error is not None:
            release_frames(error)
        if self._calls.get(call.stream) is not call:  # the call has ended already
            self._free_slot(call)
            return
        if error is None:
            result = outcome.result()
            if isinstance(result, Lasting):
                self._begin_feed(call, result)
            else:
                self._answer(call, result)
        elif isinstance(error, KeyhouseError):
            self._refuse(call, wording(error).grpc, str(error), error.code)
            if isinstance(error, OutdatedConnectionError):
                self._close()
        elif isinstance(error, asyncio.CancelledError):
            self._refuse(
                call, GrpcStatus.UNAVAILABLE, "the coordinator is stopping (try again later)"
            )
        else:
            number = secrets.token_hex(8)
            log.error("call failed", id=number, error=type(error).__qualname__)
            self._refuse(call, GrpcStatus.INTERNAL, f"internal error {number}")
        self._settled()

    # Lasting calls.

    def _begin_feed(self, call: Call, lasting: Lasting) -> None:
        """Send the first message of a lasting call, and begin its feed.

        Refuse the call if too many connections have lasting calls.
        """
        if not self.admits:
            self._refuse(call, GrpcStatus.UNAVAILABLE, f"{_ENDING} ({_CONNECT})")
            return
        if not self.lasting and not self._protect(True):  # noqa: FBT003 - see the docstring of the class
            full = WatchesFullError(
                "too many workloads wait for changes at this coordinator",
                hint="call Watch with once each minute instead",
            )
            self._refuse(call, GrpcStatus.UNAVAILABLE, str(full), full.code)
            return
        self.lasting += 1
        call.is_lasting = True
        self._free_slot(call)
        self._streams.release(1)
        self._memory.release(len(call.received))
        call.received = bytearray()
        self._answer(call, lasting.first)
        if not self._is_open(call):
            return
        unsubscribe = lasting.begin(_CallFeed(self, call))
        if self._is_open(call):
            call.unsubscribe = unsubscribe
        else:
            unsubscribe()

    def push(self, call: Call, message: bytes) -> None:
        """Send the next message of a lasting call, or store it until the message before is sent."""
        if not self._is_open(call) or call.verdict is not None:
            return
        if call.answer is None:
            self._answer(call, message)
            self._settled()
        else:
            call.next = message

    def end_feed(self, call: Call, error: KeyhouseError) -> None:
        """End a lasting call with the status of ``error``, after the pending messages."""
        if self._is_open(call):
            self._end_feed(call, error)
            self._settled()

    def _end_feed(self, call: Call, error: KeyhouseError) -> None:
        if call.answer is None:
            self._refuse(call, wording(error).grpc, str(error), error.code)
        elif call.verdict is None:
            call.verdict = error

    def _after_message(self, call: Call) -> None:
        """Wait for the next message of a lasting call, or continue with the pending message."""
        self._answers.release(call.answer_size)
        call.answer_size, call.answer, call.deadline = 0, None, call.until
        message, call.next = call.next, None
        if message is not None:
            self._answer(call, message)
        elif call.verdict is not None:
            self._end_feed(call, call.verdict)

    def _is_open(self, call: Call) -> bool:
        return self._calls.get(call.stream) is call

    # Answers.

    def _answer(self, call: Call, message: bytes) -> None:
        answer = framed(message)
        if not self._answers.acquire(len(answer), self._lose_answer):
            self._refuse(call, GrpcStatus.UNAVAILABLE, _TOO_MANY_ANSWERS)
            return
        call.answer_size = len(answer)
        if call.has_headers or self._sent_headers(call, self._service.headers, end=False):
            call.has_headers = True
            call.answer = memoryview(answer)
            call.deadline = self._service.after(self._service.limits.answer_timeout)
            self._service.counts.sent[call.labels] += 1
            self._meter.allow(_ALLOWED_BY_ANSWER)
            self._turn -= _LEAST_COST
            self._send(call)

    def _yield(self) -> None:
        """Schedule the next turn of this connection behind all other ready connections."""
        if not self._yielded:
            self._yielded = True
            asyncio.get_running_loop().call_soon(self._begin_turn)

    def _begin_turn(self) -> None:
        self._yielded = False
        self._turn = self._service.limits.turn_bytes
        self.send_more()
        self._settled()

    def _send(self, call: Call) -> None:
        """Send as much of the answer as windows, socket and turn permit, then the trailers."""
        http2 = self._http2
        if call.answer is None:
            return
        try:
            while call.answer and not self.is_blocked:
                if self._turn <= 0:
                    self._yield()
                    return
                window = http2.local_flow_control_window(call.stream)
                count = min(window, _FRAME, len(call.answer))
                if count <= 0:
                    return
                http2.send_data(call.stream, bytes(call.answer[:count]))
                call.answer = call.answer[count:]
                self._turn -= count
                # Each piece earns frames at once: the allowance is bounded, and the client may
                # confirm each frame.
                self._meter.allow(count // _ALLOWING_BYTES)
                if call.answer:
                    self._flush()
        except H2Error:  # reset by the client, or the connection has ended
            self._end(call, GrpcStatus.CANCELED)
            return
        if call.answer:
            return
        if call.is_lasting:
            self._after_message(call)
        elif self._sent_headers(call, [("grpc-status", "0")], end=True):
            self._end(call, GrpcStatus.OK)

    def _refuse(self, call: Call, status: GrpcStatus, message: str, code: str = "") -> None:
        """End a call with an error ``status``. ``message`` is for people, ``code`` for programs."""
        headers = [
            *(() if call.has_headers else self._service.headers),
            ("grpc-status", str(int(status))),
            ("grpc-message", as_message(message).decode()),
        ]
        if code:
            headers.append(("keyhouse-code", code))
        if self._sent_headers(call, headers, end=True):
            if call.outcome is None and call.complete:
                self._meter.allow(_ALLOWED_BY_ANSWER)
            self._end(call, status)

    def _answer_as_http(self, call: Call, status: int) -> None:
        """Refuse a request that is not a gRPC call, with the HTTP ``status``."""
        if self._sent_headers(call, [(":status", str(status))], end=True):
            self._end(call, GrpcStatus.UNIMPLEMENTED)

    def _sent_headers(self, call: Call, headers: Sequence[_Header], *, end: bool) -> bool:
        """Send ``headers``. With ``end``, they are trailers and end the stream.

        If the stream has ended already, end the call and return False.
        """
        try:
            self._http2.send_headers(call.stream, headers, end_stream=end)
        except H2Error:
            self._end(call, GrpcStatus.CANCELED)
            return False
        if end and not call.complete:  # the rest of the request is not needed
            self._reset(call.stream, ErrorCodes.NO_ERROR)
        return True

    # Ends of calls.

    def _end(self, call: Call, status: GrpcStatus) -> None:
        """Count the end of a call with ``status``, and release its shares of all pools."""
        if self._calls.pop(call.stream, None) is None:
            return
        self._service.counts.ended(call.labels, status)
        if not self._calls:
            self.idle_since = self._service.now
        if call.is_lasting:
            self._unsubscribe(call)
        else:
            self._streams.release(1)
        self._memory.release(len(call.received))
        self._answers.release(call.answer_size)
        call.received = bytearray()
        call.answer = None
        if call.outcome is None:
            self._free_slot(call)
        else:
            call.outcome.cancel()  # its slot becomes free at the end of the handler

    def _unsubscribe(self, call: Call) -> None:
        self.lasting -= 1
        if call.unsubscribe is not None:
            call.unsubscribe()
        if not self.lasting:
            self._protect(False)  # noqa: FBT003 - see the docstring of the class

    def _free_slot(self, call: Call) -> None:
        if call.has_slot:
            call.has_slot = False
            self._slots.release(1)

    # Calls that give way to clients with a smaller share.

    def _lose_stream(self) -> None:
        """Release a stream: end the newest incomplete call, else the newest call."""
        counted = (call for call in self._calls.values() if not call.is_lasting)
        self._lose(max(counted, key=lambda call: (not call.complete, call.stream)))

    def _lose_slot(self) -> None:
        """Release a slot for calls: end the newest call with a slot."""
        running = [call for call in self._calls.values() if call.has_slot]
        if running:  # otherwise the holders of slots are ending already
            self._lose(running[-1])

    def _lose_bytes(self) -> None:
        """Release memory for requests: end the call with the longest request."""
        self._lose(max(self._calls.values(), key=lambda call: len(call.received)))

    def _lose_answer(self) -> None:
        """Release memory for answers: end the call with the longest answer."""
        self._lose(max(self._calls.values(), key=lambda call: call.answer_size))

    def _lose(self, call: Call) -> None:
        self._free_slot(call)
        if call.answer is None:
            self._refuse(call, GrpcStatus.UNAVAILABLE, _TOO_MANY)
        else:
            self._reset(call.stream, ErrorCodes.CANCEL)
            self._end(call, GrpcStatus.UNAVAILABLE)
        self._settled()

    def _reset_by_client(self, stream: int) -> None:
        call = self._calls.get(stream)
        if call is not None:
            self._end(call, GrpcStatus.CANCELED)

    def _reset(self, stream: int, code: ErrorCodes) -> None:
        with contextlib.suppress(H2Error):  # the stream has ended already
            self._http2.reset_stream(stream, code)


class _CallFeed:
    """The feed of the lasting call ``call``: sends its messages and its end."""

    __slots__ = ("_call", "_calls")

    def __init__(self, calls: GrpcCalls, call: Call) -> None:
        self._calls = calls
        self._call = call

    def push(self, message: bytes) -> None:
        """Send ``message``, or store it until the client has received the message before."""
        self._calls.push(self._call, message)

    def end(self, error: KeyhouseError) -> None:
        """End the call with the status of ``error``, after the pending messages."""
        self._calls.end_feed(self._call, error)

"""HTTP/1.1 on a connection: each request is answered before the next request is read.

Theory of operation. A connection is in one of six phases:

    HANDSHAKE ─▶ IDLE ─first bytes─▶ HEAD ─admitted─▶ BODY ─complete─▶ RUNNING ─answer─▶ IDLE
      every phase ─refusal, last answer, deadline─▶ CLOSING

If the application cannot decide about a head yet, the connection is in the phase RUNNING until the
decision.

A small request that comes in one piece, with an immediate answer, passes all phases in one call of
``data_received``, without a task and with one write. While an answer is awaited, or the client does
not read its answers, the connection reads nothing. So a connection never stores more than one
request and one buffer of bytes. The bytes of its answers limit a turn of a connection, whatever the
form of its requests. Afterwards the connection waits behind all other ready connections. There is
no timer for each request: each phase has a deadline, and the listener checks all connections
periodically.
"""

import asyncio
import math
import secrets
from collections.abc import Awaitable, Callable, Coroutine
from enum import Enum, auto
from functools import partial
from time import perf_counter
from typing import Any, Final, TypeVar

from keyhouse.base.errors import BrokenError, release_frames
from keyhouse.base.log import log
from keyhouse.server.http.body import IncomingBody, too_many_bodies
from keyhouse.server.http.counts import RequestCounts
from keyhouse.server.http.exchange import (
    INTERNAL_ERROR,
    UNAVAILABLE,
    Admission,
    Answer,
    Deferred,
    ProtocolRefusal,
)
from keyhouse.server.http.head import (
    CHUNKED,
    HEAD_END,
    Beginning,
    MalformedError,
    RequestHead,
    readable_path,
)
from keyhouse.server.http.service import NO_REQUEST, NOTHING, HttpService
from keyhouse.server.net.concurrency import QUEUED
from keyhouse.server.net.transport import Transport

T = TypeVar("T")

_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
# A smaller answer counts as this many bytes of a turn.
_LEAST_COST: Final = 1024
# Bytes of the longest body that is copied, so that head and body need one write.
_JOINED: Final = 8192
_NO_PAUSES: Final = "send the request again, without pauses"


class ConnectionPhase(Enum):
    """The phase of an HTTP connection, which decides about received bytes and deadlines."""

    HANDSHAKE = auto()
    IDLE = auto()
    HEAD = auto()
    BODY = auto()
    RUNNING = auto()
    CLOSING = auto()


# Looked up once, not for each request.
_HANDSHAKE, _IDLE, _HEAD, _BODY, _RUNNING, _CLOSING = ConnectionPhase


class HttpConnection:
    """A connection of a client, over TLS or plain TCP.

    ``generation`` is the number of the listener's TLS context at the start of the connection. The
    connection counts against the limit from its creation until ``connection_lost``, which is called
    even after a failed handshake.
    """

    def __init__(self, service: HttpService, generation: int) -> None:
        self.generation = generation
        self._service = service
        self._transport: Transport | None = None
        self._phase = _HANDSHAKE
        self._deadline = math.inf
        # Time of the connection's start, or of its last answer.
        self._since = service.now
        service.add(self)
        self._buffer = bytearray()
        # Number of buffer bytes that were read.
        self._at = 0
        # State of an incomplete head.
        self._beginning = Beginning()
        # The next answer is the last answer.
        self._last = False
        self._writable = True
        self._yielded = False
        # Remaining bytes of the turn.
        self._turn = service.limits.turn_bytes
        self._held = False
        self._known = NOTHING
        self._request = NO_REQUEST
        self._admission: Admission | None = None
        self._body: IncomingBody | None = None
        self._awaited: asyncio.Future[Any] | Deferred[Any] | None = None
        self._counts = service.counts
        # Time of the complete head.
        self._began = 0.0
        self._chunked_size = 0

    @property
    def in_flight(self) -> str | None:
        """The path of the admitted request without an answer, or None."""
        return self._request.path if self._phase in {_BODY, _RUNNING} else None

    # Calls of the transport.

    def connecting(self, transport: Transport) -> None:
        """Handle the new TCP connection, and start the deadline of the handshake."""
        self._transport = transport
        self._deadline = self._service.after(self._service.limits.handshake_timeout)
        if self._service.is_unwelcome(self.generation):
            transport.abort()

    def connection_made(self) -> None:
        """Begin to read requests after the TLS handshake."""
        self._phase = _IDLE
        self._deadline = self._service.after(self._service.limits.idle_timeout)
        if self._service.is_unwelcome(self.generation):
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Handle the end of the connection, and cancel the work for its client."""
        del exc
        if self._phase is _HANDSHAKE:
            self._service.failed_handshakes += 1
        self._phase = _CLOSING
        self._transport = None
        self._buffer.clear()
        if self._awaited is not None:
            self._awaited.cancel()
        # A future has the body until its end.
        if not isinstance(self._awaited, asyncio.Future):
            self._forget_body()
        self._service.remove(self)

    def eof_received(self) -> None:
        """Handle the end of the client's stream: send written answers, read nothing more."""
        self._phase = _CLOSING
        self._deadline = self._service.now + self._service.limits.idle_timeout

    def data_received(self, data: bytes) -> None:
        """Read ``data``, plain text of the client, and answer the complete requests."""
        if self._phase is _IDLE and data == self._known.raw and self._is_fresh():
            self._repeat()
        elif self._phase is not _CLOSING:
            self._buffer += data
            self._work()

    def pause_writing(self) -> None:
        """Stop reading requests, because the client does not read its answers."""
        self._writable = False

    def resume_writing(self) -> None:
        """Continue, because the client has read its answers."""
        self._writable = True
        self._work()

    # Calls of the listener.

    def waits_since(self) -> float:
        """Return the loop's time of the last answer.

        Before the first answer, return the time of the connection's start. The time is infinite
        while a request runs.
        """
        works = self._phase is _RUNNING or self._transport is None
        return math.inf if works else self._since

    def expire(self, now: float) -> None:
        """Refuse the request or close the connection if its phase has passed its deadline.

        ``now``: the loop's time in seconds.
        """
        if now < self._deadline:
            return
        if self._phase is _CLOSING or self._phase is _HANDSHAKE:
            self.abort()
        elif self._phase is _IDLE or not self._writable:
            self._close()
        elif self._phase is _HEAD:
            self._refuse(
                MalformedError(408, "headers", "the request took too long to arrive", _NO_PAUSES)
            )
        elif self._phase is _BODY:
            self._refuse(
                MalformedError(408, "body", "the body took too long to arrive", _NO_PAUSES)
            )

    def close(self) -> None:
        """Close now if idle. Otherwise answer the present request first."""
        self._last = True
        if self._phase is _HANDSHAKE:
            self.abort()
        elif self._phase in {_IDLE, _HEAD}:
            self._close()

    def abort(self) -> None:
        """Close at once. Unsent bytes are lost."""
        if self._transport is not None:
            self._transport.abort()

    # Input.

    def _work(self) -> None:
        """Read and answer until bytes run out, an answer is awaited, or the turn ends."""
        try:
            while self._at < len(self._buffer) and self._turn > 0 and not self._is_blocked():
                if not (self._read_head() if self._phase is not _BODY else self._read_body()):
                    break
        except MalformedError as malformed:
            self._refuse(malformed)
        self._drop_read()
        self._end_step()

    def _drop_read(self) -> None:
        """Drop the bytes of the handled request from the buffer."""
        del self._buffer[: self._at]
        self._at = 0

    def _continue(self) -> None:
        """Continue to read after an awaited answer."""
        if self._buffer:
            self._work()
        else:
            self._end_step()

    def _repeat(self) -> None:
        """Handle a request whose head repeats the last head, with nothing else in the buffer.

        A faster form of ``_work``.
        """
        self._request = self._known.request
        try:
            self._admit()
        except MalformedError as malformed:
            self._refuse(malformed)
        # During this phase the connection is never held.
        if self._phase is _BODY:
            return
        if self._phase is not _IDLE or not self._writable or self._turn <= 0:
            self._end_step()

    def _is_fresh(self) -> bool:
        """Return whether the buffer is empty and the connection may read the next request."""
        return not self._buffer and self._writable and not self._yielded

    def _is_blocked(self) -> bool:
        return (
            self._phase is _RUNNING
            or self._phase is _CLOSING
            or self._yielded
            or not self._writable
        )

    def _end_step(self) -> None:
        """End an exhausted turn. Resume the transport only if the connection can read."""
        if self._turn <= 0 and not self._yielded:
            self._yielded = True
            asyncio.get_running_loop().call_soon(self._begin_turn)
        held = self._is_blocked()
        if held is not self._held and self._transport is not None and self._phase is not _CLOSING:
            self._held = held
            if held:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()

    def _begin_turn(self) -> None:
        self._yielded = False
        self._turn = self._service.limits.turn_bytes
        self._work()

    def _read_head(self) -> bool:
        """Read and handle a head. Return False if the head is incomplete."""
        buffer, at = self._buffer, self._at
        self._request = NO_REQUEST
        # Clients repeat requests: equal bytes are the same head again.
        if buffer.startswith(self._known.raw, at):
            self._at = at + self._known.size
        else:
            end = buffer.find(HEAD_END, at + max(0, self._beginning.checked - 3))
            if end < 0:
                self._begin_head()
                return False
            identity = self._transport.identity if self._transport is not None else None
            self._known = self._service.read_head(bytes(buffer[at : end + 4]), identity)
            self._at = end + 4
        self._beginning.checked = 0
        self._request = self._known.request
        self._admit()
        return True

    def _begin_head(self) -> None:
        if self._phase is _IDLE:
            self._phase = _HEAD
            self._deadline = self._service.now + self._service.limits.header_timeout
        self._drop_read()
        self._beginning.check(self._buffer, self._service.limits)

    def _admit(self) -> None:
        if self._counts is not None:
            self._began = perf_counter()
        try:
            verdict = self._service.application.admit(self._known.head)
        except Exception as error:  # noqa: BLE001 - no failure of a route may end the connection
            verdict = _internal_error(error)
        if isinstance(verdict, Answer) and self._request.length == 0:
            self._send(verdict)
        else:
            self._carry_out(verdict)

    def _carry_out(self, verdict: Answer | Admission | Deferred[Answer | Admission]) -> None:
        """Carry out ``verdict``, the decision of the application about the head.

        An answer refuses or answers the request, without its body. An admission reads the body and
        runs the route. For a deferred decision, the connection waits.
        """
        length = self._request.length
        if isinstance(verdict, Answer):
            if length == 0:
                self._send(verdict)
            else:
                self._answer_without_body(verdict, length)
        elif not isinstance(verdict, Admission):
            self._wait_for(verdict, self._judged)
        elif length == 0:
            self._run(verdict, b"")
        else:
            self._begin_body(verdict, length)

    def _wait_for(self, deferred: Deferred[T], then: Callable[[T | Exception], None]) -> None:
        """Read nothing until the application has decided.

        ``then`` receives the decision, or the error of the application.
        """
        self._phase = _RUNNING
        self._deadline = math.inf
        self._awaited = deferred
        deferred.then(then)

    def _judged(self, outcome: Answer | Admission | Exception) -> None:
        """Carry out ``outcome``, the decision of the application about the head.

        The application decided later, after a deferred decision. An exception is answered with
        status 500. Afterwards, the connection continues to read. If the connection no longer waits
        for the decision, the method does nothing.
        """
        if self._still_awaited():
            verdict = _internal_error(outcome) if isinstance(outcome, Exception) else outcome
            try:
                self._carry_out(verdict)
            except MalformedError as malformed:
                self._refuse(malformed)
            self._continue()

    def _answer_without_body(self, answer: Answer, length: int) -> None:
        """Answer a request before its body is read.

        Skip the body if it has arrived completely. Otherwise close the connection after the answer.
        ``length``: the announced bytes of the body, or ``CHUNKED``.
        """
        unread = length == CHUNKED or length > len(self._buffer) - self._at
        if not unread:
            self._at += length
        self._send(answer, unread=unread)

    def _begin_body(self, admission: Admission, length: int) -> None:
        service = self._service
        pool = service.known_bodies if admission.known else service.anonymous_bodies
        self._body = IncomingBody(length, admission.body_limit, pool, self._lose_body)
        self._admission = admission
        self._phase = _BODY
        self._deadline = service.now + service.limits.body_timeout
        if self._at < len(self._buffer):
            self._read_body()
        elif self._request.expects_continue and self._transport is not None:
            self._transport.write(_CONTINUE)

    def _lose_body(self) -> None:
        """Drop the request, because its body has the largest share of a full pool.

        The pool calls this method while the body arrives, or while its request waits in a queue.
        """
        awaited = self._awaited
        self._refuse(too_many_bodies())
        self._forget_body()
        if awaited is not None:
            awaited.cancel()

    def _read_body(self) -> bool:
        """Read the available part of the body. Once complete, run the request and return True."""
        admission, body = self._admission, self._body
        if admission is None or body is None:
            raise BrokenError("a body came without an admission")
        whole, self._at = body.read(self._buffer, self._at)
        if whole is None:
            return False
        self._run(admission, whole)
        return True

    # Output.

    def _run(self, admission: Admission, body: bytes) -> None:
        self._phase = _RUNNING
        self._admission = None
        try:
            outcome = admission.run(body)
        except Exception as error:  # noqa: BLE001 - no failure of a route may end the connection
            outcome = _internal_error(error)
        if admission.appends and isinstance(outcome, Coroutine):
            self._deadline = math.inf
            if self._body is not None:
                self._body.in_queue(False)  # noqa: FBT003 - as there
            self._step(outcome, None)
        else:
            self._send_outcome(outcome)

    def _step(self, work: Coroutine[Any, Any, Answer], done: "asyncio.Future[Any] | None") -> None:
        """Run ``work`` until its next future, and continue when that future is done.

        ``done`` is the future of the step before, or None at the first step.

        A task would wait for the event loop before its first step and after its last step. Each
        wait is a system call, so ``work`` has no task. It may await futures, and nothing that needs
        a task, such as ``asyncio.timeout``.
        """
        try:
            awaited: asyncio.Future[Any] = work.send(None)
        except StopIteration as stop:
            answer: Answer = stop.value
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - as in ``_run``
            answer = _internal_error(error)
        else:
            self._awaited = awaited
            awaited.add_done_callback(partial(self._step, work))
            return
        if done is None:
            self._send(answer)
        elif self._still_awaited():
            self._send(answer)
            self._continue()

    def _send_outcome(self, outcome: Answer | Awaitable[Answer]) -> None:
        """Send the answer of a request: now, or when its awaitable is done."""
        if isinstance(outcome, Answer):
            self._send(outcome)
            return
        self._deadline = math.inf
        if self._body is not None:
            self._body.in_queue(False)  # noqa: FBT003 - as there
        if self._body is None:
            self._awaited = self._service.wait_for(outcome)
        else:
            token = QUEUED.set(self._body.in_queue)
            self._awaited = self._service.wait_for(outcome)
            QUEUED.reset(token)
        self._awaited.add_done_callback(self._answered)

    def _answered(self, future: asyncio.Future[Answer]) -> None:
        """Send the awaited answer, then continue to read."""
        error = asyncio.CancelledError() if future.cancelled() else future.exception()
        if self._still_awaited():
            self._send(future.result() if error is None else _internal_error(error))
            self._continue()

    def _still_awaited(self) -> bool:
        """End the wait for an answer. Return whether the client still waits for the answer."""
        self._awaited = None
        if self._body is not None:
            self._forget_body()
        return self._transport is not None and self._phase is _RUNNING

    def _send(self, answer: Answer, *, unread: bool = False) -> None:
        """Write an answer, and close the connection if it has to end.

        The connection ends at the client's wish, at a stop of the listener, and with ``unread``:
        bytes of the request are not read, or may still arrive.
        """
        service, request, transport = self._service, self._request, self._transport
        if self._body is not None:
            self._forget_body()
        if transport is None:
            return
        close = unread or self._last or not request.keep_alive
        try:
            head = service.head(answer, close=close)
        except Exception as error:  # noqa: BLE001 - an answer that cannot be written is our failure
            answer = _internal_error(error)
            head = service.head(answer, close=close)
        body = b"" if request.method == "HEAD" else answer.body
        if len(body) <= _JOINED:
            transport.write(head + body)
        # Several answers may share these bytes.
        else:
            transport.write(head)
            transport.write(body)
        self._turn -= max(_LEAST_COST, len(body))
        self._since = service.now
        time_to_take = len(body) // service.limits.slowest_client
        if close:
            unread = unread or self._at < len(self._buffer)
            self._close(unread=unread, time_to_take=time_to_take)
        else:
            self._phase = _IDLE
            self._deadline = service.now + service.limits.idle_timeout + time_to_take
        if self._counts is not None:
            self._count(self._counts, request, answer.status, len(body))

    def _count(
        self, counts: RequestCounts, request: RequestHead, status: int, response: int
    ) -> None:
        """Count an answer with ``status`` and a body of ``response`` bytes.

        The size of a request contains the announced length of its body, or the received bytes of a
        chunked body.
        """
        if request is NO_REQUEST:
            counts.refused(status)
            return
        length = request.length
        if length == CHUNKED:
            length, self._chunked_size = self._chunked_size, 0
        counts.answered(
            request.path,
            request.method,
            status,
            perf_counter() - self._began,
            self._known.size + length,
            response,
        )

    def _refuse(self, malformed: MalformedError) -> None:
        """Answer a request that HTTP itself refuses (``malformed``), then close."""
        refusal = ProtocolRefusal(
            status=malformed.status,
            part=malformed.part,
            message=malformed.message,
            hint=malformed.hint,
            path=self._request.path or self._refused_path(),
        )
        try:
            answer = self._service.application.refuse(refusal)
        except Exception as error:  # noqa: BLE001 - no failure of a route may end the connection
            answer = _internal_error(error)
        if not isinstance(answer, Answer):
            self._wait_for(answer, self._refused)
            return
        if malformed.status == UNAVAILABLE:
            answer = Answer(answer.status, answer.body, (*answer.headers, (b"retry-after", b"1")))
        self._send(answer, unread=True)

    def _refused(self, outcome: Answer | Exception) -> None:
        """Send ``outcome``, the deferred refusal of an unreadable request, then close.

        An exception is answered with status 500.
        """
        if self._still_awaited():
            answer = _internal_error(outcome) if isinstance(outcome, Exception) else outcome
            self._send(answer, unread=True)

    def _refused_path(self) -> str:
        """Return the decoded path in an unreadable head, or "" if the path is unreadable."""
        end = self._at + self._service.limits.request_line
        return readable_path(bytes(self._buffer[self._at : end]))

    def _close(self, *, unread: bool = False, time_to_take: int = 0) -> None:
        """Close after the written answers. ``unread``: the client may still be sending.

        ``time_to_take``: further seconds in which the client may read the answers.
        """
        limits = self._service.limits
        self._phase = _CLOSING
        self._deadline = self._service.now + limits.linger_timeout + time_to_take
        self._deadline += limits.sweep_interval
        self._buffer.clear()
        self._at = 0
        self._admission = None
        self._forget_body()
        if self._transport is not None:
            self._transport.close(limits.linger_bytes if unread else 0)

    def _forget_body(self) -> None:
        body, self._body = self._body, None
        if body is not None:
            self._chunked_size = body.chunked_size
            body.forget()


def _internal_error(error: BaseException) -> Answer:
    """Return the answer for an unexpected ``error`` of a route: 500 with a random id.

    The process logs the id and the type of the error, and never its text.
    """
    release_frames(error)
    number = secrets.token_hex(8)
    log.error("request failed", id=number, error=type(error).__qualname__)
    body = f'{{"status":"error","data":null,"message":"internal error {number}"}}'
    return Answer(INTERNAL_ERROR, body.encode("ascii"))

"""TLS between a TCP transport and one HTTP connection, with a small and fixed memory.

The event loop has a TLS layer of its own, which workload connections use. This one exists because
of what a client can make that one keep: 256 KiB of buffer and as much again in each of two memory
BIOs, for as long as a connection lasts (6 GiB with 12,000 connections), and a complete answer in
encrypted form for each client that does not read. Here

1. all connections read into one buffer, which belongs to the context;
2. OpenSSL gets one record at a time, and its data goes up at once; while the connection above holds
   reading, at most one more buffer is taken from the socket;
3. of an answer only as much is encrypted as the socket takes; the rest is kept as the bytes that it
   was given, which other connections may share;
4. while the socket takes nothing, nothing is read, for also TLS itself may answer what it reads;
5. after some records, in or out, all other connections that are ready have their turn, and a client
   whose records bring hardly any data is cut off (``record_meter``).

It ends like this: what was written, close_notify, the end of the stream. A client that may still be
sending is then heard out for a while, for the reset of a socket with unread bytes would overtake
the last answer. A deadline above bounds every phase of it.
"""

import asyncio
from collections import deque
from enum import Enum, auto
from typing import Any, Final, cast

from keyhouse.server.net.handshakes import COSTLY_KEY, TOO_LARGE, Handshakes
from keyhouse.server.net.openssl import ffi, lib
from keyhouse.server.net.record_meter import RecordMeter
from keyhouse.server.net.tls import (
    BUFFER_BYTES,
    TlsContext,
    has_refused_key,
    negotiated_protocol,
    new_memory_bio,
    peer_leaf,
)
from keyhouse.server.net.transport import ConnectionHandler

_GOODBYE: Final = 512  # bytes that a client may say before its end, while it is held
_RECORD: Final = 16 * 1024  # bytes of plain text that are encrypted at once
_RECORDS_PER_TURN: Final = 4  # to one connection before others have their turn

RECORDS_READ: Final = 16
"""TLS records of one connection that are read before other connections have their turn."""

# Bound once: each is called for every request.
_read, _write = lib.SSL_read, lib.SSL_write
_bio_read, _bio_write, _bio_length = lib.BIO_read, lib.BIO_write, lib.BIO_get_mem_data
_clear_errors = lib.ERR_clear_error
_from_buffer = ffi.from_buffer
_NULL: Final = ffi.NULL


class _Phase(Enum):
    HANDSHAKE = auto()
    OPEN = auto()
    FLUSHING = auto()  # what was written still goes out, then close_notify
    LINGERING = auto()  # the stream has ended; what comes is discarded
    CLOSED = auto()


_LINGERING, _OPEN = _Phase.LINGERING, _Phase.OPEN  # looked up once, not for each request


class TlsTransport(asyncio.BufferedProtocol):
    """One TLS connection on the side of the server.

    ``identity`` is the DER of the certificate whose key signed the handshake, or None.
    """

    __slots__ = (
        "__weakref__",
        "_backlog",
        "_bio_in",
        "_bio_out",
        "_clogged",
        "_context",
        "_decrypting",
        "_ended",
        "_handler",
        "_handshakes",
        "_held",
        "_linger",
        "_phase",
        "_raw",
        "_reading",
        "_records",
        "_rests",
        "_ssl",
        "_told",
        "_turn",
        "_unheard",
        "_unsent",
        "_yielded",
        "identity",
        "shown",
    )

    def __init__(
        self, context: TlsContext, handler: ConnectionHandler, handshakes: Handshakes
    ) -> None:
        self.identity: bytes | None = None
        self.shown: Final = context.shown
        self._context = context
        self._handler = handler
        self._handshakes = handshakes
        self._unheard = handshakes.most_bytes  # what the client may still send of its handshake
        self._raw: asyncio.Transport | None = None
        self._phase = _Phase.HANDSHAKE
        self._held = False  # the connection above takes no more for now
        self._clogged = False  # the socket takes no more for now
        self._told = False  # the connection above knows that its writing is paused
        self._reading = True  # the socket is read
        self._decrypting = False
        self._yielded = False  # the backlog continues in the loop's next turn
        self._rests = False  # reading continues in the loop's next turn
        self._records = RecordMeter()
        self._turn = RECORDS_READ  # what is left of it
        self._backlog: deque[memoryview] = deque()
        self._linger = 0
        self._unsent = 0  # bytes that were encrypted and not yet given to the socket
        self._ended = False  # the client's stream has ended
        self._ssl = context.new_session()
        self._bio_in, self._bio_out = new_memory_bio(), new_memory_bio()
        lib.SSL_set_bio(self._ssl, self._bio_in, self._bio_out)  # the session owns both now

    # What the TCP transport tells.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._raw = cast("asyncio.Transport", transport)  # uvloop's is no subclass
        self._handler.connecting(self)

    def get_buffer(self, _sizehint: int) -> Any:
        """Return the buffer of all connections: it is read into and emptied in one go."""
        return self._context.inbox_view

    def buffer_updated(self, nbytes: int) -> None:
        """Take ``nbytes`` in that were read."""
        if self._phase is _OPEN or self._phase is _Phase.FLUSHING:
            self._records.kept += self._context.inbox_view[:nbytes]
        elif self._phase is _LINGERING:
            self._discard(nbytes)
            return
        elif self._phase is _Phase.CLOSED:
            return
        else:
            self._hear(nbytes)
        if not self._rests:  # the event loop has served the other connections meanwhile
            self._turn = RECORDS_READ
        self._decrypt()
        self._control_reading()

    def eof_received(self) -> bool:
        """The client's stream has ended, with close_notify or without. Returns whether to stay."""
        self._ended = True
        if self._phase is _Phase.OPEN:
            self._end_of_input()
        return self._phase is _Phase.FLUSHING

    def pause_writing(self) -> None:
        """The socket takes no more for now."""
        self._clogged = True
        self._control_reading()

    def resume_writing(self) -> None:
        """The socket has taken what it was given."""
        self._clogged = False
        self._flush()
        self._decrypt()
        self._control_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self._phase = _Phase.CLOSED
        self._raw = None
        self._backlog.clear()
        self._handler.connection_lost(exc)

    # What the connection above asks for.

    def pause_reading(self) -> None:
        """Hold what comes."""
        self._held = True

    def resume_reading(self) -> None:
        """Continue with what came and what comes."""
        self._held = False
        if self._records.kept:
            self._decrypt()
            self._control_reading()

    def write(self, data: bytes) -> None:
        """Send ``data``: now as far as the socket takes it, the rest as it does."""
        if self._phase is not _OPEN:
            return
        self._records.excuse()
        if len(data) <= _RECORD and not self._backlog and not self._clogged:
            self._encrypt(data)
        else:
            self._backlog.append(memoryview(data))
            self._flush()
        if (self._backlog or self._clogged) and not self._told:
            self._told = True
            self._handler.pause_writing()

    def close(self, linger: int = 0) -> None:
        """Send what was written, then end. ``linger``: bytes of the client's to discard first."""
        if self._phase is _Phase.HANDSHAKE:
            self.abort()
        elif self._phase is _Phase.OPEN:
            self._phase = _Phase.FLUSHING
            self._linger = linger
            self._flush()

    def abort(self) -> None:
        """Close at once. What was not sent yet is lost."""
        self._phase = _Phase.CLOSED
        if self._raw is not None:
            self._raw.abort()

    # In.

    def _hear(self, count: int) -> None:
        """Take ``count`` bytes of a handshake in, and what came with its end.

        What OpenSSL gets of a handshake is bounded: 100 KiB of certificates with as many extensions
        as fit took up to 32 ms, measured. What comes behind the handshake does not count.
        """
        context, heard = self._context, min(count, self._unheard)
        self._unheard -= heard
        self._give(context.inbox, heard)
        behind = context.inbox_view[heard:count]
        if self._shake_hands():
            left = max(0, _bio_read(self._bio_in, context.buffer, BUFFER_BYTES))
            self._records.kept += context.buffer_view[:left] + behind

    def _give(self, received: Any, count: int) -> None:
        """Give OpenSSL ``count`` bytes that came."""
        if _bio_write(self._bio_in, received, count) != count:
            raise MemoryError

    def _shake_hands(self) -> bool:
        """Continue with the handshake; return whether it is complete."""
        _clear_errors()
        result = lib.SSL_do_handshake(self._ssl)
        waits = lib.SSL_get_error(self._ssl, result) == lib.SSL_ERROR_WANT_READ
        _clear_errors()
        if result == 1 and self._is_as_required():
            self._begin()
            return True
        if has_refused_key(self._ssl):
            self._handshakes.refused(COSTLY_KEY)
        elif waits and not self._unheard:
            waits = False
            self._handshakes.refused(TOO_LARGE)
        self._drain()
        if not waits:  # the client gets the alert that says why, which a reset would overtake
            self._phase = _Phase.LINGERING
            self._linger = BUFFER_BYTES
            self._end_output()
        return False

    def _begin(self) -> None:
        """Hand the connection over. What is said goes to the socket with ``_decrypt``, next."""
        self._phase = _Phase.OPEN
        # Tickets; they leave with what the connection above says first, if it says it at once.
        # Holding them for the first answer was measured: it costs.
        self._unsent = _bio_length(self._bio_out, _NULL)
        self._decrypting = True
        try:
            self._handler.connection_made()
        finally:
            self._decrypting = False

    def _discard(self, count: int) -> None:
        self._linger -= count
        if self._linger < 0:
            self.abort()

    def _is_as_required(self) -> bool:
        self.identity = peer_leaf(self._ssl)
        # That there is an identity, OpenSSL has seen to (SSL_VERIFY_FAIL_IF_NO_PEER_CERT).
        wanted = self._context.insists_on
        return wanted is None or negotiated_protocol(self._ssl) == wanted

    def _decrypt(self) -> None:
        """Hand up what has come, as far as it is wanted. Not again from within itself."""
        if self._decrypting:
            return
        self._decrypting = True
        records, open_ = self._records, _OPEN
        try:
            while (
                self._phase is open_
                and not self._held
                and not self._clogged
                and not self._rests
                and (size := records.whole())
            ):
                if self._turn:
                    self._turn -= 1
                    self._read(records.take(size))
                else:
                    self._rests = True
                    asyncio.get_running_loop().call_soon(self._begin_turn)
        finally:
            self._decrypting = False
            if self._unsent:
                self._drain()

    def _begin_turn(self) -> None:
        self._rests = False
        self._turn = RECORDS_READ
        self._decrypt()
        self._control_reading()

    def _read(self, record: bytes) -> None:
        """Hand up the data of one record."""
        context = self._context
        self._give(record, len(record))
        _clear_errors()
        count = _read(self._ssl, context.buffer, BUFFER_BYTES)
        if not self._records.count(max(0, count)):
            self.abort()
        elif count > 0:
            self._handler.data_received(context.buffer_view[:count])
        else:
            self._nothing_read(count)

    def _nothing_read(self, result: int) -> None:
        kind = lib.SSL_get_error(self._ssl, result)
        _clear_errors()
        self._drain()  # TLS itself may have answered, or have sent an alert
        if kind == lib.SSL_ERROR_ZERO_RETURN:
            self._end_of_input()
        elif kind != lib.SSL_ERROR_WANT_READ:
            self._phase = _Phase.LINGERING
            self._linger = BUFFER_BYTES
            self._backlog.clear()
            self._handler.eof_received()
            self._end_output()

    def _end_of_input(self) -> None:
        self._handler.eof_received()
        self.close()

    def _control_reading(self) -> None:
        """Read from the socket unless bytes are kept already that are not taken.

        While an answer is awaited a few are kept before that: else the end of a client that says
        close_notify first is not seen, and the server works on for it. What is discarded is always
        read: else a client that was held could not send the rest and read its answer.
        """
        records = self._records
        waits = len(records.kept) > _GOODBYE and records.whole() > 0
        wanted = self._phase is _LINGERING or not (self._clogged or waits)
        raw = self._raw
        if wanted is self._reading or raw is None or raw.is_closing():
            return
        self._reading = wanted
        if wanted:
            raw.resume_reading()
        else:
            raw.pause_reading()

    # Out.

    def _encrypt(self, piece: bytes | memoryview) -> None:
        """Send up to one record."""
        source = piece if isinstance(piece, bytes) else _from_buffer(piece)
        taken = _write(self._ssl, source, len(piece))
        if taken != len(piece):
            _clear_errors()
            self.abort()
            return
        # Answers to requests that came together leave together.
        self._unsent += taken
        if not self._decrypting or self._unsent >= _RECORD:
            self._drain()

    def _drain(self) -> None:
        """Give the socket what TLS has for it."""
        raw, context = self._raw, self._context
        self._unsent = 0
        while (count := _bio_read(self._bio_out, context.buffer, BUFFER_BYTES)) > 0:
            if raw is not None and not raw.is_closing():
                raw.write(context.buffer_view[:count])
            if count < BUFFER_BYTES:
                return

    def _flush(self) -> None:
        """Encrypt as much of what waits as the socket takes, then do what waited for the end."""
        backlog = self._backlog
        turns = _RECORDS_PER_TURN
        while backlog and not self._clogged:
            if not turns:
                self._yield_turn()
                return
            turns -= 1
            waiting = backlog[0]
            self._encrypt(waiting[:_RECORD])
            if len(waiting) <= _RECORD:
                backlog.popleft()
            else:
                backlog[0] = waiting[_RECORD:]
        if backlog:
            return
        if self._phase is _Phase.FLUSHING:
            self._finish()
        elif self._told and not self._clogged:
            self._told = False
            self._handler.resume_writing()

    def _yield_turn(self) -> None:
        if not self._yielded:
            self._yielded = True
            asyncio.get_running_loop().call_soon(self._resume_turn)

    def _resume_turn(self) -> None:
        self._yielded = False
        if self._phase is not _Phase.CLOSED:
            self._flush()

    def _finish(self) -> None:
        """Say that this was all, and close, at once or after the client."""
        lib.SSL_shutdown(self._ssl)
        _clear_errors()
        self._drain()
        self._phase = _Phase.LINGERING
        if self._linger and not self._ended:
            self._end_output()
        elif self._raw is not None:
            self._raw.close()

    def _end_output(self) -> None:
        """End the stream to the client, and discard what it still sends."""
        raw = self._raw
        if raw is None or raw.is_closing():
            return
        raw.write_eof()
        self._control_reading()

"""HTTP without TLS, for what is public anyway: the metrics listener. Never for the Client API.

The counterpart of ``tls_transport``, with the same interface to the connection above and the same
end: what was written, the end of the stream, and a client that still sends is heard out.
"""

import asyncio
from typing import Final, cast

from keyhouse.server.net.transport import ConnectionHandler


class Plaintext:
    """Stands where a listener's TLS context stands, so that nobody leaves TLS out unawares."""


PLAINTEXT: Final = Plaintext()

MOST_KEPT: Final = 64 * 1024
"""Bytes after which the socket is left alone while an answer is awaited."""


class PlainTransport(asyncio.Protocol):
    """One TCP connection on the side of the server. Nobody is known on it: no ``identity``."""

    def __init__(self, handler: ConnectionHandler) -> None:
        self.identity: Final[bytes | None] = None
        self.shown: Final = b""
        self._handler = handler
        self._raw: asyncio.Transport | None = None
        self._linger: int | None = None  # bytes that are still discarded after the last answer
        self._held = False  # the connection above takes no more for now
        self._kept = bytearray()  # what came meanwhile

    # What the TCP transport tells.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._raw = cast("asyncio.Transport", transport)  # uvloop's is no subclass
        self._handler.connecting(self)
        if not self._raw.is_closing():
            self._handler.connection_made()

    def data_received(self, data: bytes) -> None:
        """Take bytes in."""
        if self._linger is not None:
            self._linger -= len(data)
            if self._linger < 0:
                self.abort()
        elif self._held:
            self._keep(data)
        else:
            self._handler.data_received(data)

    def eof_received(self) -> bool:
        """The client's stream has ended: what was written goes out, then the socket closes."""
        if self._linger is None:
            self._handler.eof_received()
        return False

    def pause_writing(self) -> None:
        """The socket takes no more for now."""
        self._handler.pause_writing()

    def resume_writing(self) -> None:
        """The socket has taken what it was given."""
        self._handler.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self._raw = None
        self._handler.connection_lost(exc)

    # What the connection above asks for.

    def pause_reading(self) -> None:
        """Hold what comes. The socket is read on for a while, so that a client's end is seen."""
        self._held = True

    def resume_reading(self) -> None:
        """Continue with what came and what comes."""
        self._held = False
        kept, self._kept = self._kept, bytearray()
        if kept and self._linger is None:
            self._handler.data_received(bytes(kept))
        if self._raw is not None and not self._raw.is_closing() and not self._held:
            self._raw.resume_reading()

    def write(self, data: bytes) -> None:
        """Send ``data``: now as far as the socket takes it, the rest as it does."""
        if self._raw is not None and self._linger is None:
            self._raw.write(data)

    def close(self, linger: int = 0) -> None:
        """Send what was written, then end. ``linger``: bytes of the client's to discard first."""
        raw = self._raw
        if raw is None or raw.is_closing() or self._linger is not None:
            return
        self._linger = linger
        self._kept.clear()
        if linger:
            raw.write_eof()
            raw.resume_reading()
        else:
            raw.close()

    def abort(self) -> None:
        """Close at once. What was not sent yet is lost."""
        if self._raw is not None:
            self._raw.abort()

    def _keep(self, data: bytes) -> None:
        self._kept += data
        if len(self._kept) >= MOST_KEPT and self._raw is not None and not self._raw.is_closing():
            self._raw.pause_reading()

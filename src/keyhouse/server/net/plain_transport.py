"""HTTP without TLS for public content: the metrics listener. Never for the Client API.

The counterpart of ``tls_transport``: interface and close are equal, so an HTTP connection runs over
either transport.
"""

import asyncio
from typing import Final, cast

from keyhouse.server.net.transport import ConnectionHandler


class Plaintext:
    """Takes the place of a TLS context, so that nobody omits TLS by accident."""


PLAINTEXT: Final = Plaintext()

MOST_KEPT: Final = 64 * 1024
"""Unread bytes after which the socket is not read while an answer is awaited."""


class PlainTransport(asyncio.Protocol):
    """The server side of a TCP connection without TLS, below ``handler``.

    ``identity`` is always None.
    """

    def __init__(self, handler: ConnectionHandler) -> None:
        self.identity: Final[bytes | None] = None
        self.server_leaf: Final = b""
        self._handler = handler
        self._raw: asyncio.Transport | None = None
        # Bytes to discard after the last answer.
        self._linger: int | None = None
        # The connection above accepts no bytes at present.
        self._held = False
        # The bytes that arrived meanwhile.
        self._unread = bytearray()

    # Calls of the TCP transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Handle the new TCP connection."""
        # The transport of uvloop is not a subclass.
        self._raw = cast("asyncio.Transport", transport)
        self._handler.connecting(self)
        if not self._raw.is_closing():
            self._handler.connection_made()

    def data_received(self, data: bytes) -> None:
        """Handle ``data`` from the socket."""
        if self._linger is not None:
            self._linger -= len(data)
            if self._linger < 0:
                self.abort()
        elif self._held:
            self._hold_data(data)
        else:
            self._handler.data_received(data)

    def eof_received(self) -> bool:
        """Handle the end of the client's stream: written bytes leave, then the socket closes."""
        if self._linger is None:
            self._handler.eof_received()
        return False

    def pause_writing(self) -> None:
        """Stop writing: the socket accepts no bytes at present."""
        self._handler.pause_writing()

    def resume_writing(self) -> None:
        """Continue writing: the socket is empty."""
        self._handler.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Handle the end of the connection."""
        self._raw = None
        self._handler.connection_lost(exc)

    # Calls of the connection above.

    def pause_reading(self) -> None:
        """Hold incoming bytes. The socket is still read for a while, to notice its end."""
        self._held = True

    def resume_reading(self) -> None:
        """Continue with the held bytes, then with new bytes."""
        self._held = False
        unread, self._unread = self._unread, bytearray()
        if unread and self._linger is None:
            self._handler.data_received(bytes(unread))
        if self._raw is not None and not self._raw.is_closing() and not self._held:
            self._raw.resume_reading()

    def write(self, data: bytes) -> None:
        """Send ``data``: at once as much as the socket accepts, the rest later."""
        if self._raw is not None and self._linger is None:
            self._raw.write(data)

    def close(self, linger: int = 0) -> None:
        """Send the written bytes, then end the connection.

        With ``linger``, the connection stays open until the client closes its side. The transport
        discards up to ``linger`` further bytes of the client. More bytes abort the connection.
        """
        raw = self._raw
        if raw is None or raw.is_closing() or self._linger is not None:
            return
        self._linger = linger
        self._unread.clear()
        if linger:
            raw.write_eof()
            raw.resume_reading()
        else:
            raw.close()

    def abort(self) -> None:
        """Close at once. Unsent bytes are lost."""
        if self._raw is not None:
            self._raw.abort()

    def _hold_data(self, data: bytes) -> None:
        self._unread += data
        if len(self._unread) >= MOST_KEPT and self._raw is not None and not self._raw.is_closing():
            self._raw.pause_reading()

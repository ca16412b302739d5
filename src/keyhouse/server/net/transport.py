"""The two halves of a connection: a transport that carries bytes, and the protocol above it.

``tls_transport`` and ``plain_transport`` are transports. HTTP and gRPC connections are above them.
All calls happen on the event loop's thread.
"""

from typing import Protocol


class Transport(Protocol):
    """The connection of a client, encrypted or not, for the protocols above."""

    @property
    def identity(self) -> bytes | None:
        """The DER of the certificate whose key signed the handshake, or None."""

    @property
    def server_leaf(self) -> bytes:
        """The DER of the server certificate in the handshake, or empty bytes without TLS."""

    def pause_reading(self) -> None:
        """Hold incoming bytes until ``resume_reading``."""

    def resume_reading(self) -> None:
        """Continue with the held bytes, then with new bytes."""

    def write(self, data: bytes) -> None:
        """Send ``data``: at once as much as the socket accepts, the rest later."""

    def close(self, linger: int = 0) -> None:
        """Send the written bytes, then end the connection.

        With ``linger``, the connection stays open until the client closes its side. The transport
        discards up to ``linger`` further bytes of the client. More bytes abort the connection.
        """

    def abort(self) -> None:
        """Close at once. Unsent bytes are lost."""


class ConnectionHandler(Protocol):
    """The calls of a transport to the protocol above it."""

    def connecting(self, transport: Transport) -> None:
        """Handle the new TCP connection, before the TLS handshake."""

    def connection_made(self) -> None:
        """Handle the complete handshake: bytes may follow."""

    def data_received(self, data: bytes) -> None:
        """Handle ``data`` of the client, under TLS the decrypted data of at most one TLS record."""

    def eof_received(self) -> None:
        """Handle the end of the client's input. Written bytes still leave."""

    def pause_writing(self) -> None:
        """Stop writing: the client does not read."""

    def resume_writing(self) -> None:
        """Continue writing: the client has read."""

    def connection_lost(self, exc: Exception | None) -> None:
        """Handle the end of the connection. Called exactly once after ``connecting``."""

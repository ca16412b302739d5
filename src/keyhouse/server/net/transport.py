"""The two sides of one socket of a listener: what carries bytes, and the connection above it.

``tls_transport`` and ``plain_transport`` carry; HTTP and gRPC connections stand above. All calls
come on the event loop's thread.
"""

from typing import Protocol


class Transport(Protocol):
    """Carries the bytes of one client."""

    @property
    def identity(self) -> bytes | None:
        """The DER of the certificate whose key signed the handshake, or None."""

    @property
    def shown(self) -> bytes:
        """The DER of the certificate that the client was shown; empty without TLS."""

    def pause_reading(self) -> None:
        """Hold what comes."""

    def resume_reading(self) -> None:
        """Continue with what came and what comes."""

    def write(self, data: bytes) -> None:
        """Send ``data``: now as far as the socket takes it, the rest as it does."""

    def close(self, linger: int = 0) -> None:
        """Send what was written, then end. ``linger``: bytes of the client's to discard first."""

    def abort(self) -> None:
        """Close at once. What was not sent yet is lost."""


class ConnectionHandler(Protocol):
    """What a transport tells the connection that it carries."""

    def connecting(self, transport: Transport) -> None:
        """The TCP connection is there; of TLS the handshake is not."""

    def connection_made(self) -> None:
        """The handshake is complete: bytes may come."""

    def data_received(self, data: bytes) -> None:
        """Take bytes; under TLS decrypted ones, at most one record."""

    def eof_received(self) -> None:
        """The client will send no more; what was written still goes out."""

    def pause_writing(self) -> None:
        """The client does not take what was written."""

    def resume_writing(self) -> None:
        """The client has taken what was written."""

    def connection_lost(self, exc: Exception | None) -> None:
        """End; comes exactly once after ``connecting``."""

"""A client and the served TLS transport without sockets: a test delivers the bytes."""

import asyncio
import ssl
from collections.abc import Callable

from cryptography.hazmat.bindings.openssl.binding import Binding

from keyhouse.server.net.connections import Handshakes
from keyhouse.server.net.limits import Limits
from keyhouse.server.net.tls import TlsContext
from keyhouse.server.net.tls_transport import TlsTransport
from keyhouse.server.net.transport import Transport
from support.peers.https import SERVER

__all__ = ["Above", "Socket", "Wire", "soil"]


class Socket(asyncio.Transport):
    """The TCP transport: records the sent bytes. ``full``: each write pauses the sender."""

    def __init__(self) -> None:
        super().__init__()
        self.carried: TlsTransport | None = None
        self.full = False
        self.reading = True
        self.ended = self.closed = self.aborted = False
        self.writes: list[bytes] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.ended
        assert not self.closed
        self.writes.append(bytes(data))
        if self.full:
            assert self.carried is not None
            self.carried.pause_writing()

    def write_eof(self) -> None:
        assert not self.closed
        self.ended = True

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = self.aborted = True

    def is_closing(self) -> bool:
        return self.closed

    def is_reading(self) -> bool:
        return self.reading

    def pause_reading(self) -> None:
        assert self.reading
        assert not self.closed
        self.reading = False

    def resume_reading(self) -> None:
        assert not self.reading
        assert not self.closed
        self.reading = True

    def taken(self) -> bytes:
        """Return the bytes sent since the last call."""
        sent = b"".join(self.writes)
        self.writes.clear()
        return sent


class Above:
    """The connection above: records the received bytes. ``told``: the other calls, in order."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.told: list[str] = []
        self.begin: Callable[[], object] = lambda: None
        self.take: Callable[[bytes], object] = lambda _: None

    @property
    def received(self) -> bytes:
        """All received bytes."""
        return b"".join(self.pieces)

    @property
    def ended(self) -> bool:
        """Whether the client has ended its sending."""
        return "eof" in self.told

    def connecting(self, transport: Transport) -> None:
        """Record the start of the TCP connection."""
        del transport
        self.told.append("connecting")

    def connection_made(self) -> None:
        """Record the end of the handshake, and call ``begin``."""
        self.told.append("made")
        self.begin()

    def data_received(self, data: bytes) -> None:
        """Pass ``data`` to ``take``, then record it."""
        self.take(bytes(data))
        self.pieces.append(bytes(data))

    def eof_received(self) -> None:
        """Record that the client ended its sending."""
        self.told.append("eof")

    def pause_writing(self) -> None:
        """Record that the client does not read."""
        self.told.append("pause")

    def resume_writing(self) -> None:
        """Record that the client reads again."""
        self.told.append("resume")

    def connection_lost(self, exc: Exception | None) -> None:
        """Record the end of the connection."""
        self.told.append("lost" if exc is None else type(exc).__name__)


class Wire:
    """A client with a nearly complete handshake: its last flight still waits for ``flush``.

    ``soiled``: call ``soil`` before each delivery. ``most_bytes``: the server's limit for the bytes
    of a handshake.
    """

    def __init__(
        self,
        client: ssl.SSLContext,
        *,
        soiled: bool = False,
        context: TlsContext | None = None,
        most_bytes: int = Limits().handshake_bytes,
    ) -> None:
        context = context or TlsContext(SERVER.key, [SERVER.certificate])
        self.socket, self.above = Socket(), Above()
        self.transport = TlsTransport(context, self.above, Handshakes(most_bytes))
        self.transport.connection_made(self.socket)
        self.socket.carried = self.transport
        self.sizes: list[int] = []
        """Numbers of bytes of each delivery to the server."""
        self._soiled = soiled
        self._incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.client = client.wrap_bio(self._incoming, self.outgoing, server_hostname="localhost")
        self._shake_hands()

    def _shake_hands(self) -> None:
        """Complete the client's handshake, but do not deliver its last flight."""
        for _ in range(10):
            try:
                self.client.do_handshake()
            except ssl.SSLWantReadError:
                self.flush()
            else:
                return

    def flush(self) -> None:
        """Deliver the client's bytes to the server, and the server's answer to the client."""
        self.feed(self.outgoing.read())

    def feed(self, data: bytes) -> None:
        """Deliver ``data`` to the server, and the server's answer to the client."""
        self.give(data)
        self.carry()

    def give(self, data: bytes) -> None:
        """Deliver ``data`` to the server; the answer stays in ``socket``."""
        if self._soiled:
            soil()
        self.sizes.append(len(data))
        inbox = self.transport.get_buffer(-1)
        inbox[: len(data)] = data
        self.transport.buffer_updated(len(data))

    def carry(self) -> None:
        """Deliver the server's bytes to the client."""
        self._incoming.write(self.socket.taken())

    @property
    def kept(self) -> int:
        """Number of received bytes in the buffers of the server."""
        binding = Binding()
        given = binding.lib.BIO_get_mem_data(self.transport._bio_in, binding.ffi.NULL)
        return int(given) + len(self.transport._records.unread)

    def record(self, data: bytes) -> bytes:
        """Return ``data`` as encrypted records of the client."""
        self.client.write(data)
        return self.outgoing.read()

    def read(self) -> bytes:
        """Return all data for the client, up to the server's close_notify if there is one."""
        self.carry()
        found = b""
        try:
            while piece := self.client.read(1 << 20):
                found += piece
        except (ssl.SSLWantReadError, ssl.SSLZeroReturnError):
            pass
        return found

    def is_over(self) -> bool:
        """Read all data; return whether the server sent close_notify."""
        self.read()
        try:
            return not self.client.read(1)
        except ssl.SSLWantReadError:
            return False
        except ssl.SSLZeroReturnError:
            return True


def soil() -> None:
    """Leave an error in this thread's OpenSSL queue, as unrelated cryptography may."""
    lib = Binding().lib
    lib.ERR_put_error(6, 0, 100, b"test", 1)
    assert lib.ERR_peek_error()

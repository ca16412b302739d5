"""A client and the served TLS transport without sockets: a test decides what reaches which side."""

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
    """The TCP transport: keeps what is sent. ``full``: it takes no more than a buffer of it."""

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
        """Return what was sent since the last time."""
        sent = b"".join(self.writes)
        self.writes.clear()
        return sent


class Above:
    """The connection above: keeps what comes. ``told``: the other calls, in order."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.told: list[str] = []
        self.begin: Callable[[], object] = lambda: None
        self.take: Callable[[bytes], object] = lambda _: None

    @property
    def received(self) -> bytes:
        """All that has come."""
        return b"".join(self.pieces)

    @property
    def ended(self) -> bool:
        """Whether the client sends no more."""
        return "eof" in self.told

    def connecting(self, transport: Transport) -> None:
        """The TCP connection is there."""
        del transport
        self.told.append("connecting")

    def connection_made(self) -> None:
        """The handshake is complete."""
        self.told.append("made")
        self.begin()

    def data_received(self, data: bytes) -> None:
        """Keep ``data`` as it is when ``take`` is done with it."""
        self.take(bytes(data))
        self.pieces.append(bytes(data))

    def eof_received(self) -> None:
        """The client sends no more."""
        self.told.append("eof")

    def pause_writing(self) -> None:
        """The client does not take what was written."""
        self.told.append("pause")

    def resume_writing(self) -> None:
        """The client has taken it."""
        self.told.append("resume")

    def connection_lost(self, exc: Exception | None) -> None:
        """The end."""
        self.told.append("lost" if exc is None else type(exc).__name__)


class Wire:
    """A client that has nearly completed its handshake: its last flight is still to be flushed.

    ``soiled``: see ``soil``. ``most_bytes``: what the server takes of a handshake.
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
        """Of what the server was given."""
        self._soiled = soiled
        self._incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.client = client.wrap_bio(self._incoming, self.outgoing, server_hostname="localhost")
        self._shake_hands()

    def _shake_hands(self) -> None:
        """Complete the client's handshake, but keep its last flight back."""
        for _ in range(10):
            try:
                self.client.do_handshake()
            except ssl.SSLWantReadError:
                self.flush()
            else:
                return

    def flush(self) -> None:
        """Carry what the client sends to the server, and the other way."""
        self.feed(self.outgoing.read())

    def feed(self, data: bytes) -> None:
        """Give the server ``data`` as it comes from a socket, and the client what it answers."""
        self.give(data)
        self.carry()

    def give(self, data: bytes) -> None:
        """Give the server ``data``; what it answers stays in ``socket``."""
        if self._soiled:
            soil()
        self.sizes.append(len(data))
        inbox = self.transport.get_buffer(-1)
        inbox[: len(data)] = data
        self.transport.buffer_updated(len(data))

    def carry(self) -> None:
        """Give the client what the server has sent."""
        self._incoming.write(self.socket.taken())

    @property
    def kept(self) -> int:
        """How many bytes of the client's the server keeps, as it received them."""
        binding = Binding()
        given = binding.lib.BIO_get_mem_data(self.transport._bio_in, binding.ffi.NULL)
        return int(given) + len(self.transport._records.unread)

    def record(self, data: bytes) -> bytes:
        """Return ``data`` as the client sends it."""
        self.client.write(data)
        return self.outgoing.read()

    def read(self) -> bytes:
        """Return what the client was sent, until nothing is left or the server said its end."""
        self.carry()
        found = b""
        try:
            while piece := self.client.read(1 << 20):
                found += piece
        except (ssl.SSLWantReadError, ssl.SSLZeroReturnError):
            pass
        return found

    def is_over(self) -> bool:
        """Read all; tell whether the server said that nothing more comes (close_notify)."""
        self.read()
        try:
            return not self.client.read(1)
        except ssl.SSLWantReadError:
            return False
        except ssl.SSLZeroReturnError:
            return True


def soil() -> None:
    """Leave an error in OpenSSL's queue of this thread, as other cryptography may."""
    lib = Binding().lib
    lib.ERR_put_error(6, 0, 100, b"test", 1)
    assert lib.ERR_peek_error()

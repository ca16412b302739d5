"""The launcher's side of TLS: the key stays in memory, and the handshake checks the peer.

CPython's ``ssl`` reads a client's key only from files. So, as on the coordinator's side, a subclass
of ``ssl.SSLContext`` creates sessions of pyOpenSSL. asyncio uses such a session as an
``ssl.SSLObject``. Each context serves one connection.
"""

import ssl
from collections.abc import Callable
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import load_der_private_key
from OpenSSL import SSL, crypto

from keyhouse.base.connect_errors import plain_http
from keyhouse.launcher.credentials import Credentials
from keyhouse.launcher.errors import CoordinatorNotTrustedError

MOST_RECEIVED: Final = 16 * 1024 * 1024
"""Bytes that a peer may send on one connection. The interface's messages have at most 4 MiB."""

_PIECE: Final = 65_536  # bytes in one read or write, chosen: four TLS records
_CIPHERS: Final = b"ECDHE+AESGCM:ECDHE+CHACHA20"
_ALPN: Final = b"h2"

PeerCheck = Callable[[bytes], None]
"""Check the peer's leaf (DER).

Raises ``CoordinatorNotTrustedError`` for an unacceptable peer.
"""


class PeerRefusedError(ssl.SSLError):
    """Ends a handshake. ``reason_why`` is the error of the check of the peer.

    The class is an ``SSLError``, because asyncio passes only such an error of a handshake to the
    connecting caller.
    """

    def __init__(self, why: CoordinatorNotTrustedError) -> None:
        super().__init__(ssl.SSL_ERROR_SSL, "the peer is refused")
        self.reason_why = why


class ClientContext(ssl.SSLContext):
    """A TLS client that presents ``credentials`` and checks the peer with ``check``.

    The versions are 1.2 and 1.3, and ``h2`` must be negotiated. ``check`` runs at the end of the
    handshake, before any byte of a request is sent. At this point the handshake has proven that the
    peer owns the leaf.
    """

    def __new__(cls, *_args: object) -> "ClientContext":  # noqa: PYI034, D102 - as typeshed has it
        return super().__new__(cls, ssl.PROTOCOL_TLS_CLIENT)

    def __init__(self, credentials: Credentials, check: PeerCheck) -> None:
        self.in_tls = False  # whether TLS has begun over a TCP connection
        self.check = check
        self._native = SSL.Context(SSL.TLS_CLIENT_METHOD)
        self._native.set_min_proto_version(SSL.TLS1_2_VERSION)
        # Renegotiation could bring another certificate after the check.
        self._native.set_options(SSL.OP_NO_COMPRESSION | SSL.OP_NO_RENEGOTIATION)
        self._native.set_cipher_list(_CIPHERS)
        self._native.set_verify(SSL.VERIFY_NONE)  # the check decides, see trust.py
        self._native.set_alpn_protos([_ALPN])
        key = load_der_private_key(credentials.key.reveal(), None)
        assert isinstance(key, EllipticCurvePrivateKey)  # noqa: S101 generated as such
        self._native.use_certificate(x509.load_der_x509_certificate(credentials.certificate))
        self._native.use_privatekey(key)

    def wrap_bio(  # type: ignore[override]  # a TlsSession has the members of SSLObject that asyncio uses
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,  # noqa: FBT001, FBT002 - as the base class has it
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> "TlsSession":
        """Return a new client session between the buffers ``incoming`` and ``outgoing``.

        ``server_hostname``: the name to request (SNI), unless it is an address. Other parameters
        have no effect.
        """
        del server_side, session
        self.in_tls = True
        connection = SSL.Connection(self._native, None)
        connection.set_connect_state()
        if isinstance(server_hostname, str) and not _is_ip(server_hostname):
            connection.set_tlsext_host_name(server_hostname.encode("ascii"))
        return TlsSession(self.check, connection, incoming, outgoing)


class TlsSession:
    """One TLS connection with the interface of ``ssl.SSLObject``.

    ``check`` receives the peer's certificate after the handshake. ``incoming`` and ``outgoing``:
    encrypted bytes from and for the socket.
    """

    def __init__(
        self,
        check: PeerCheck,
        connection: SSL.Connection,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
    ) -> None:
        self._check = check
        self._connection = connection
        self._incoming = incoming
        self._outgoing = outgoing
        self._received = 0
        self._begin = b""

    def do_handshake(self) -> None:
        """Continue the handshake; raise ``ssl.SSLWantReadError`` until it is complete.

        Then check the peer. Raises ``PeerRefusedError``.
        """
        self._do(self._connection.do_handshake)
        if self._connection.get_alpn_proto_negotiated() != _ALPN:
            raise PeerRefusedError(_untrusted("the port does not serve gRPC (no ALPN h2)"))
        leaf = self._connection.get_peer_certificate()
        try:
            if leaf is None:
                raise _untrusted("it presented no certificate")
            self._check(crypto.dump_certificate(crypto.FILETYPE_ASN1, leaf))
        except CoordinatorNotTrustedError as why:
            raise PeerRefusedError(why) from None

    def read(self, size: int = _PIECE, buffer: Any = None) -> Any:
        """Return at most ``size`` decrypted bytes; ``b""`` after the peer's close_notify."""
        if buffer is None:
            data = self._receive(lambda: self._connection.recv(min(size, _PIECE)), b"")
            self._count(len(data))
            return data
        count = self._receive(lambda: self._connection.recv_into(buffer, size), 0)
        self._count(count)
        return count

    def write(self, data: bytes | bytearray | memoryview) -> int:
        """Encrypt up to one TLS record of ``data`` and return the number of consumed bytes."""
        piece = bytes(data[:_PIECE])
        return int(self._do(lambda: self._connection.send(piece)))

    def pending(self) -> int:
        """Return the number of decrypted bytes that have not been read."""
        return self._connection.pending()

    def unwrap(self) -> None:
        """Send close_notify, and do not wait for the peer's close_notify."""
        self._do(self._connection.shutdown)

    def getpeercert(self, binary_form: bool = False) -> None:  # noqa: FBT001, FBT002 - as in SSLObject
        """Return None: during the handshake, ``check`` received the peer's certificate."""

    def selected_alpn_protocol(self) -> str:
        """Return ``h2``, the only protocol that the handshake permits."""
        return _ALPN.decode("ascii")

    def cipher(self) -> tuple[str, str, int] | None:
        """Return name, protocol version and key bits of the cipher suite in use."""
        name = self._connection.get_cipher_name()
        version = self._connection.get_protocol_version_name()
        return (name, version, self._connection.get_cipher_bits() or 0) if name else None

    @staticmethod
    def compression() -> None:
        """Return None: compression is off."""

    def _receive(self, call: Callable[[], Any], at_end: Any) -> Any:
        try:
            return self._do(call)
        except ssl.SSLZeroReturnError:
            return at_end

    def _count(self, received: int) -> None:
        self._received += received
        if self._received > MOST_RECEIVED:
            raise ssl.SSLError(ssl.SSL_ERROR_SSL, f"the peer sent more than {MOST_RECEIVED} bytes")

    def _do(self, call: Callable[[], Any]) -> Any:
        """Return the result of ``call``, a call of OpenSSL, with its errors as errors of ``ssl``.

        Before the call, pass the received bytes to OpenSSL. Afterwards, pass the output of OpenSSL
        to the socket's buffer.
        """
        while data := self._incoming.read(_PIECE):
            self._begin = self._begin or data
            self._connection.bio_write(data)
        try:
            return call()
        except SSL.WantReadError:
            raise ssl.SSLWantReadError(ssl.SSL_ERROR_WANT_READ, "more input is needed") from None
        except SSL.ZeroReturnError:
            raise ssl.SSLZeroReturnError(
                ssl.SSL_ERROR_ZERO_RETURN, "the server closed the connection"
            ) from None
        except SSL.Error as error:
            raise plain_http(self._begin) or _failure(error) from None
        finally:
            self._drain()

    def _drain(self) -> None:
        while True:
            try:
                self._outgoing.write(self._connection.bio_read(_PIECE))
            except SSL.WantReadError:
                return


def _failure(error: SSL.Error) -> ssl.SSLError:
    """Return ``error`` as an error of ``ssl`` with OpenSSL's reasons, which are fixed words."""
    if isinstance(error, SSL.SysCallError):
        return ssl.SSLEOFError(ssl.SSL_ERROR_EOF, "the server closed the connection")
    queue = error.args[0] if error.args else ()
    reasons = [str(entry[2]) for entry in queue]
    return ssl.SSLError(ssl.SSL_ERROR_SSL, "; ".join(reasons))


def _is_ip(host: str) -> bool:
    return ":" in host or host.rpartition(".")[2].isdecimal()


def _untrusted(problem: str) -> CoordinatorNotTrustedError:
    return CoordinatorNotTrustedError(
        f"the coordinator is not trusted: {problem}",
        hint="use the address of its workload API (port 2001), not of its Client API",
    )

"""A workload's connection: gRPC over HTTP/2 and TLS, with less work than the server has.

A library would need a multiple of the server's processor time. Frames: RFC 9113. Literal headers
without indexing: RFC 7541, section 6.2.2. TLS is pyOpenSSL with the settings of the launcher. So
the server does the handshake of a real agent, and keys remain in memory.
"""

import socket
import struct
from typing import Final

from benchmarks.processes import TroubleError
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from OpenSSL import SSL

__all__ = ["RefusedError", "Wire", "client_context"]

_DATA, _HEADERS, _RESET, _SETTINGS, _PING, _GOAWAY = 0x0, 0x1, 0x3, 0x4, 0x6, 0x7
_ACK = _END_STREAM = 0x1
_END_HEADERS: Final = 0x4
_HEAD: Final = 9
_PREFIX: Final = 5  # bytes before a message of gRPC
_WINDOW: Final = 2**31 - 1
_PATIENCE: Final = 60  # seconds
_STATUS: Final = b"\x0bgrpc-status"  # the server sends literals


class RefusedError(Exception):
    """The call ended with a status other than OK."""


def _frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    head = len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big")
    return head + payload


def _literal(name: bytes, value: bytes) -> bytes:
    return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value


_OPENING: Final = (
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    + _frame(_SETTINGS, 0, 0, (4).to_bytes(2, "big") + _WINDOW.to_bytes(4, "big"))
    + _frame(0x8, 0, 0, (_WINDOW - 65_535).to_bytes(4, "big"))
)
_FIELDS: Final = b"".join(
    _literal(name, value)
    for name, value in (
        (b":method", b"POST"),
        (b":scheme", b"https"),
        (b":authority", b"coordinator"),
        (b"content-type", b"application/grpc"),
        (b"te", b"trailers"),
    )
)


def client_context(certificate: bytes, key: EllipticCurvePrivateKey) -> SSL.Context:
    """Return a context with ``certificate`` (DER) and ``key``, with the launcher's settings."""
    context = SSL.Context(SSL.TLS_CLIENT_METHOD)
    context.set_min_proto_version(SSL.TLS1_2_VERSION)
    context.set_options(SSL.OP_NO_COMPRESSION | SSL.OP_NO_RENEGOTIATION)
    context.set_cipher_list(b"ECDHE+AESGCM:ECDHE+CHACHA20")
    context.set_verify(SSL.VERIFY_NONE)  # loopback, and the calls have no real secrets
    context.set_alpn_protos([b"h2"])
    context.use_certificate(x509.load_der_x509_certificate(certificate))
    context.use_privatekey(key)
    return context


class Wire:
    """A connection with the certificate and key in ``context``."""

    def __init__(self, port: int, context: SSL.Context) -> None:
        plain = socket.create_connection(("127.0.0.1", port))
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        limit = struct.pack("@ll", _PATIENCE, 0)  # a timeout of Python would not block
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
        self.stream = SSL.Connection(context, plain)
        self.stream.set_connect_state()
        try:
            self.stream.do_handshake()
        except SSL.Error as error:
            plain.close()
            raise RefusedError("the handshake failed") from error
        self._kept = bytearray()
        self._next = 1
        self._messages: dict[int, list[bytes]] = {}
        self._data: dict[int, bytearray] = {}
        self._opening = _OPENING

    def close(self) -> None:
        """Close the connection."""
        self.stream.close()

    def begin(self, path: str, message: bytes) -> int:
        """Send a call, and return its stream."""
        stream, self._next = self._next, self._next + 2
        self._messages[stream], self._data[stream] = [], bytearray()
        block = _literal(b":path", path.encode()) + _FIELDS  # RFC 9113, 8.3: before other fields
        framed = b"\0" + len(message).to_bytes(4, "big") + message
        self.stream.sendall(
            self._opening
            + _frame(_HEADERS, _END_HEADERS, stream, block)
            + _frame(_DATA, _END_STREAM, stream, framed)
        )
        self._opening = b""
        return stream

    def call(self, path: str, message: bytes) -> bytes:
        """Make a call, and return the message of the answer."""
        stream = self.begin(path, message)
        answer = self.message(stream)
        del self._messages[stream], self._data[stream]
        return answer

    def message(self, stream: int) -> bytes:
        """Return the next message of ``stream``; raise ``RefusedError`` if the call failed."""
        while not self._messages[stream]:
            self.receive()
        return self._messages[stream].pop(0)

    def messages(self, stream: int) -> list[bytes]:
        """Receive, and return all new messages of ``stream``."""
        self.receive()
        while self.stream.pending():
            self.receive()
        messages, self._messages[stream] = self._messages[stream], []
        return messages

    def left(self, stream: int) -> list[bytes]:
        """Return the unread messages of ``stream`` without receiving."""
        messages, self._messages[stream] = self._messages[stream], []
        return messages

    def receive(self) -> None:
        """Read once from the socket, and handle complete frames."""
        try:
            piece = self.stream.recv(65_536)
        except SSL.Error as error:
            raise RefusedError("the server closed the connection, or sent nothing") from error
        kept = self._kept
        kept += piece
        while len(kept) >= _HEAD:
            end = _HEAD + int.from_bytes(kept[:3], "big")
            if len(kept) < end:
                return
            kind, flags, payload = kept[3], kept[4], bytes(kept[_HEAD:end])
            stream = int.from_bytes(kept[5:_HEAD], "big")
            del kept[:end]
            self._take(kind, flags, stream, payload)

    def _take(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind == _DATA and stream in self._data:
            data = self._data[stream]
            data += payload
            while len(data) >= _PREFIX:
                end = _PREFIX + int.from_bytes(data[1:_PREFIX], "big")
                if len(data) < end:
                    break
                self._messages[stream].append(bytes(data[_PREFIX:end]))
                del data[:end]
        elif kind == _HEADERS and _STATUS in payload:
            at = payload.index(_STATUS) + len(_STATUS)
            status = payload[at + 1 : at + 1 + payload[at]]
            if status != b"0":
                code = payload[payload.rfind(b"keyhouse-code") :]
                raise RefusedError(f"status {status.decode()} {code!r}")
        elif kind == _SETTINGS and not flags & _ACK:
            self.stream.sendall(_frame(_SETTINGS, _ACK, 0))
        elif kind == _PING and not flags & _ACK:
            self.stream.sendall(_frame(_PING, _ACK, 0, payload))
        elif kind in {_RESET, _GOAWAY}:
            raise TroubleError("the server ended a connection of a workload")

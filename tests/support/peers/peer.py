"""A small HTTPS server with simulated quotes in place of a coordinator."""

import base64
import hashlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BufferedIOBase
from ipaddress import ip_address
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from keyhouse.attestation import add_header, quote_binding, report_data
from keyhouse.attestation.quote.binding import line_report_data
from keyhouse.client import Address
from keyhouse_simulation import SimulatedPlatform, make_machine

__all__ = [
    "Certified",
    "Drip",
    "Fault",
    "Flood",
    "Peer",
    "Reply",
    "certify",
    "listening",
    "serving",
]


@dataclass(frozen=True)
class Certified:
    """A key with its certificate."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @property
    def der(self) -> bytes:
        return self.certificate.public_bytes(Encoding.DER)

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def certify(
    name: str, issuer: Certified | None = None, *, is_ca: bool = True, address: str = ""
) -> Certified:
    """Return a new key with a certificate for localhost and ``address``.

    ``issuer`` None: the certificate is self-signed.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.now(UTC)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    also = [x509.IPAddress(ip_address(address))] if address else []
    names = x509.SubjectAlternativeName([x509.DNSName("localhost"), *also])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.certificate.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=300))
        .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
        .add_extension(names, critical=False)
        .sign(issuer.key if issuer else key, hashes.SHA256())
    )
    return Certified(key, certificate)


Reply = tuple[int, bytes]


@dataclass
class Drip:
    """Content that arrives byte by byte, ten bytes a second, until ``enough`` is set."""

    content: bytes
    enough: threading.Event = field(default_factory=threading.Event)


@dataclass
class Flood:
    """Content that is repeated until the client closes the connection."""

    content: bytes


Fault = bytes | threading.Event | Drip | Flood | None
"""In place of a reply: bytes and the end of the connection, or silence until the event.

None: no fault.
"""


@dataclass
class Peer:
    """The answers of the server. Tests change them before they connect."""

    platform: SimulatedPlatform
    root: Certified
    intermediate: Certified
    served: tuple[Certified, ...]  # the TLS chain, leaf first
    replies: dict[tuple[str, str], Reply] = field(default_factory=dict)
    bend_quote: Callable[[bytes], bytes] = field(default=lambda quote: quote)
    line: tuple[bytes, ...] = ()  # entries of the line of the root; empty: no line is served
    bend_chain: Callable[[str], str] = field(default=lambda chain: chain)
    answer_nonce: bytes | None = None  # replaces the requested nonce in quotes
    extra_headers: dict[str, str] = field(default_factory=dict)
    users: bytes = b""  # PEM of the requested client certificates
    faults: list["Fault"] = field(default_factory=list)  # for the next requests, except quotes
    requests: list[tuple[str, str, bytes]] = field(default_factory=list)
    at_least: list[str | None] = field(default_factory=list)  # the header of each request
    client_certificates: list[bytes | None] = field(default_factory=list)

    @classmethod
    def new(cls, platform: SimulatedPlatform | None = None) -> "Peer":
        root = certify("Root")
        intermediate = certify("Intermediate", root)
        return cls(
            platform or SimulatedPlatform(make_machine(datetime.now(UTC))),
            root,
            intermediate,
            (root,),
        )

    def reply(self, method: str, target: str) -> Reply:
        """Return the reply set by the test, else a quote or the line, else 405."""
        url = urlsplit(target)
        chosen = self.replies.get((method, url.path))
        if chosen is not None:
            return chosen
        if url.path == "/api/v2/quote":
            nonce = parse_qs(url.query).get("nonce", [""])[0]
            return self.quote_reply(base64.urlsafe_b64decode(nonce))
        if url.path == "/api/v2/line" and self.line:
            nonce = parse_qs(url.query).get("nonce", [""])[0]
            return self.line_reply(base64.urlsafe_b64decode(nonce))
        return 405, b'{"status":"error","data":null,"message":"no such call"}\n'

    def quote_reply(self, nonce: bytes) -> Reply:
        asked = nonce if self.answer_nonce is None else self.answer_nonce
        bound = report_data(quote_binding(self.root.der, asked))
        quote = self.bend_quote(add_header(self.platform.quote(bound)))
        chain = self.bend_chain((self.intermediate.pem + self.root.pem).decode())
        return success({"cert": chain, "quote": quote})

    def line_reply(self, nonce: bytes) -> Reply:
        asked = nonce if self.answer_nonce is None else self.answer_nonce
        last = hashlib.sha256(self.line[-1]).digest()
        bound = line_report_data(self.root.der, asked, last, b"")
        quote = self.bend_quote(add_header(self.platform.quote(bound)))
        entries = [{"entry": entry} for entry in self.line]
        return success({"entries": entries, "checkpoint": "", "quote": quote})


def success(data: object, message: str = "") -> Reply:
    told = {"message": message} if message else {}
    return 200, msgspec.json.encode({"status": "success", "data": data, **told}) + b"\n"


@contextmanager
def serving(peer: Peer, folder: Path) -> Iterator[Address]:
    """Serve ``peer`` on a free port of the loopback interface."""
    server = _Server(("127.0.0.1", 0), _handler(peer), _context(peer, folder))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield Address("127.0.0.1", server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def listening(served: tuple[Certified, ...], folder: Path) -> Iterator[tuple[Address, list[bytes]]]:
    """Serve TLS with ``served``; yield the address and the bytes received after the handshake."""
    chain, key = folder / "other.pem", folder / "other.key"
    chain.write_bytes(b"".join(one.pem for one in served))
    key.write_bytes(served[0].key_pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain, key)
    heard: list[bytes] = []

    def listen(server: socket.socket) -> None:
        try:
            with server.accept()[0] as plain, context.wrap_socket(plain, server_side=True) as peer:
                heard.append(peer.recv(1024))
        except OSError:
            pass  # the client closed the connection

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=listen, args=(server,))
        thread.start()
        yield Address("127.0.0.1", server.getsockname()[1]), heard
        thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], handler: Any, context: ssl.SSLContext) -> None:
        super().__init__(address, handler)
        self._context = context

    def finish_request(self, request: Any, client_address: Any) -> None:
        try:
            with self._context.wrap_socket(request, server_side=True) as wrapped:
                super().finish_request(wrapped, client_address)
        except OSError:
            pass  # the client closed the connection, as many tests intend


def _context(peer: Peer, folder: Path) -> ssl.SSLContext:
    chain, key = folder / "served.pem", folder / "served.key"
    chain.write_bytes(b"".join(one.pem for one in peer.served))
    key.write_bytes(peer.served[0].key_pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain, key)
    if peer.users:
        context.load_verify_locations(cadata=peer.users.decode())
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


def _fail(fault: bytes | threading.Event | Drip | Flood, out: BufferedIOBase) -> None:
    if isinstance(fault, bytes):
        out.write(fault)
    elif isinstance(fault, Flood):
        while True:  # until the client closes the connection
            out.write(fault.content)
    elif isinstance(fault, Drip):
        for byte in fault.content:
            if fault.enough.wait(0.1):
                return
            out.write(bytes([byte]))
    else:
        fault.wait()


def _handler(peer: Peer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        serving: ClassVar[Peer] = peer

        def do_GET(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            self._answer()

        def _answer(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            body = self.rfile.read(length)
            peer.requests.append((self.command, self.path, body))
            peer.at_least.append(self.headers.get("Keyhouse-At-Least"))
            peer.client_certificates.append(self.connection.getpeercert(binary_form=True))
            fault = peer.faults.pop(0) if peer.faults and "/quote" not in self.path else None
            if fault is None:
                self._send(*peer.reply(self.command, self.path))
            else:
                self.close_connection = True
                _fail(fault, self.wfile)

        def _send(self, code: int, body: bytes) -> None:
            self.send_response(code)
            self.send_header("Content-Length", str(len(body)))
            for name, value in peer.extra_headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as overridden
            pass

    return Handler

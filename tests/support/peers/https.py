"""A real HTTPS listener for tests: a thread with a loop, a small application, certificates."""

import asyncio
import datetime as dt
import hashlib
import ipaddress
import json
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

import uvloop
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import dsa, ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from keyhouse.base.secret import Secret
from keyhouse.server.http.exchange import Admission, Answer, Deferred, Head, ProtocolRefusal
from keyhouse.server.http.listener import Listener
from keyhouse.server.net.concurrency import ConcurrencyLimit, FairQueue
from keyhouse.server.net.limits import Limits
from keyhouse.server.net.tls import TlsContext

T = TypeVar("T")

ECHO_LIMIT = 100_000


class Pair(NamedTuple):
    """A certificate with its key, as DER and PKCS #8, and as PEM."""

    certificate: bytes
    key: Secret
    pem: bytes
    key_pem: bytes


def make_pair(
    name: str,
    *,
    key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | dsa.DSAPrivateKey | None = None,
    expired: bool = False,
    padding: int = 0,
    issuer: tuple[str, rsa.RSAPrivateKey] | None = None,
) -> Pair:
    """Return a certificate with ``padding`` more bytes; without ``issuer``, self-signed."""
    private = key or ec.generate_private_key(ec.SECP256R1())
    subject = _name(name)
    now = dt.datetime.now(dt.UTC)
    begin, end = (-20, -10) if expired else (-1, 10)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(_name(issuer[0]) if issuer else subject)
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + dt.timedelta(days=begin))
        .not_valid_after(now + dt.timedelta(days=end))
        .add_extension(
            x509.SubjectAlternativeName(
                [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
            ),
            critical=False,
        )
    )
    if padding:
        oid = x509.ObjectIdentifier("1.3.6.1.4.1.99999.1")
        builder = builder.add_extension(
            x509.UnrecognizedExtension(oid, b"\x04" * padding), critical=False
        )
    certificate = builder.sign(issuer[1] if issuer else private, hashes.SHA256())
    pkcs8 = private.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    return Pair(
        certificate.public_bytes(Encoding.DER),
        Secret(pkcs8),
        certificate.public_bytes(Encoding.PEM),
        private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])


SERVER = make_pair("the server")
ALICE = make_pair("alice")
BOB = make_pair("bob")


def fingerprint(pair: Pair) -> str:
    """Return the value with which the test application identifies the client ``pair``."""
    return hashlib.sha256(pair.certificate).hexdigest()


class Kept(Deferred[T]):
    """A result that a test supplies later. ``cancelled``: the caller no longer waits."""

    def __init__(self) -> None:
        super().__init__()
        self.cancelled = False

    def cancel(self) -> None:
        super().cancel()
        self.cancelled = True


class Probe:
    """An application that echoes requests. ``gate`` releases ``/wait`` and ``/queue``.

    ``/queue`` also waits for its turn.
    """

    def __init__(self) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None
        self.gate = asyncio.Event()
        self.queue = FairQueue(ConcurrencyLimit(9, "too many"))
        self.waiting = threading.Event()
        self.cancelled = threading.Event()
        self.bodies: list[bytes] = []
        self.admitted: list[Head] = []
        self.verdict: Kept[Answer | Admission] | None = None
        self.refusal: Kept[Answer] | None = None
        self.done: asyncio.Future[Answer | None] | None = None
        self.refuses_later = False

    def admit(self, head: Head) -> Answer | Admission | Deferred[Answer | Admission]:
        """Answer ``/status``, ``/denied`` and unknown paths at once; read the bodies of all others.

        Tests decide the results of ``/judged-later`` and ``/concluded``, and of refusals while
        ``refuses_later`` is set.
        """
        self.admitted.append(head)
        if head.path in {"/echo", "/wait", "/fail", "/fail-later", "/big", "/queue", "/concluded"}:
            return Admission(ECHO_LIMIT, self._run(head), appends=head.path == "/concluded")
        if head.path == "/judged-later":
            self.verdict = Kept()
            self.waiting.set()
            return self.verdict
        if head.path == "/broken":
            raise ValueError("a secret")
        if head.path == "/status":
            return self._seen(head, b"")
        return Answer(403 if head.path == "/denied" else 404, b'{"status":"error"}')

    def refuse(self, refusal: ProtocolRefusal) -> Answer | Deferred[Answer]:
        """Return a refusal as JSON with all its parts, for tests to read."""
        if self.refuses_later:
            self.refusal = Kept()
            self.waiting.set()
            return self.refusal
        body = {"part": refusal.part, "message": refusal.message, "path": refusal.path}
        return Answer(refusal.status, json.dumps(body).encode(), ((b"x-refused", b"yes"),))

    def _run(self, head: Head) -> Callable[[bytes], Answer | Awaitable[Answer]]:
        def run(body: bytes) -> Answer | Awaitable[Answer]:
            self.bodies.append(body)
            if head.path == "/fail":
                raise ValueError("a secret")
            if head.path in {"/wait", "/fail-later"}:
                return self._later(head, body)
            if head.path == "/concluded":
                return self._concluded(head, body)
            if head.path == "/queue":
                return self.queue.run(lambda: self._later(head, body))
            if head.path == "/big":
                return Answer(200, b"x" * int(head.query))
            return self._seen(head, body)

        return run

    async def _concluded(self, head: Head, body: bytes) -> Answer:
        self.done = asyncio.get_running_loop().create_future()
        self.waiting.set()
        return await self.done or await self._later(head, body)

    async def _later(self, head: Head, body: bytes) -> Answer:
        self.waiting.set()
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        if head.path == "/fail-later":
            raise ValueError("a secret")
        return self._seen(head, body)

    @staticmethod
    def _seen(head: Head, body: bytes) -> Answer:
        identity = head.identity
        seen = {
            "method": head.method,
            "path": head.path,
            "query": head.query.decode("latin-1"),
            "identity": None if identity is None else hashlib.sha256(identity).hexdigest(),
            "body": hashlib.sha256(body).hexdigest(),
        }
        return Answer(200, json.dumps(seen).encode(), ((b"x-test", b"1"),))


class Running(NamedTuple):
    """A listener in its own thread."""

    listener: Listener
    probe: Probe
    port: int
    loop: asyncio.AbstractEventLoop

    def do(self, function: Callable[[], T]) -> T:
        """Call ``function`` on the listener's loop; return the result."""
        result: Future[T] = Future()

        def call() -> None:
            try:
                result.set_result(function())
            except Exception as error:  # noqa: BLE001 - the test raises the error
                result.set_exception(error)

        self.loop.call_soon_threadsafe(call)
        return result.result(20)

    def do_until(self, condition: Callable[[], bool]) -> bool:
        """Wait until ``condition`` holds on the listener's loop; return False after 20 s."""
        held = threading.Event()

        def look() -> None:
            if condition():
                held.set()
            else:
                self.loop.call_later(0.005, look)

        self.loop.call_soon_threadsafe(look)
        return held.wait(20)

    def open_gate(self) -> None:
        """Release the answers to ``/wait``."""
        self.do(self.probe.gate.set)

    def stop(self, grace: float) -> "Future[None]":
        """Begin a graceful stop."""
        return asyncio.run_coroutine_threadsafe(self.listener.stop(grace), self.loop)


@contextmanager
def running(
    limits: Limits | None = None,
    *,
    server: Pair = SERVER,
    alpn: bytes = b"http/1.1",
    required: bool = False,
    places: bool = False,
) -> Iterator[Running]:
    """Run a listener on loopback until the block ends."""
    started: Future[tuple[Listener, Probe, asyncio.AbstractEventLoop]] = Future()
    ended: Future[Callable[[], object]] = Future()

    async def serve() -> None:
        end = asyncio.Event()
        loop = asyncio.get_running_loop()
        probe = Probe()
        context = TlsContext(server.key, [server.certificate], alpn=alpn, required=required)
        listener = Listener(probe, context, limits, places=places)
        await listener.start("127.0.0.1", 0)
        ended.set_result(lambda: loop.call_soon_threadsafe(end.set))
        started.set_result((listener, probe, loop))
        await end.wait()
        await listener.stop(0.0)

    def run() -> None:
        try:
            uvloop.run(serve())
        except BaseException as error:
            if not started.done():
                started.set_exception(error)
            raise

    thread = threading.Thread(target=run)
    thread.start()
    try:
        listener, probe, loop = started.result(20)
        yield Running(listener, probe, listener.port, loop)
    finally:
        if ended.done():
            ended.result()()
        thread.join(20)


def trusting_context(version: ssl.TLSVersion | None = None) -> ssl.SSLContext:
    """Return a client's context that trusts every server."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if version is not None:
        context.minimum_version = context.maximum_version = version
    return context


def client_context(
    pair: Pair | None,
    directory: Path,
    *,
    version: ssl.TLSVersion | None = None,
    appended: tuple[Pair, ...] = (),
) -> ssl.SSLContext:
    """Return a client's context with the certificate ``pair`` and the certificates ``appended``."""
    context = trusting_context(version)
    if pair is not None:
        path = directory / "client.pem"
        path.write_bytes(pair.key_pem + pair.pem + b"".join(other.pem for other in appended))
        context.load_cert_chain(path)
    return context


class Client:
    """A TLS connection with a buffer of unread bytes."""

    def __init__(
        self, port: int, context: ssl.SSLContext, session: ssl.SSLSession | None = None
    ) -> None:
        raw = socket.create_connection(("127.0.0.1", port), timeout=20)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            self.tls = context.wrap_socket(raw, server_hostname="localhost", session=session)
        except BaseException:
            raw.close()
            raise
        self._unread = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.tls.close()

    def send(self, data: bytes) -> None:
        self.tls.sendall(data)

    def get(self, path: str) -> tuple[int, dict[str, Any]]:
        """Send GET for ``path``; return status and body."""
        self.send(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        status, _, body = self.answer()
        return status, json.loads(body)

    def answer(self, *, head_only: bool = False) -> tuple[int, dict[str, str], bytes]:
        """Read an answer; return status, fields and body."""
        while b"\r\n\r\n" not in self._unread:
            self._more()
        head, _, self._unread = self._unread.partition(b"\r\n\r\n")
        status, *lines = head.decode("latin-1").split("\r\n")
        fields = {
            name.lower(): value for name, _, value in (line.partition(": ") for line in lines)
        }
        length = 0 if head_only else int(fields.get("content-length", "0"))
        while len(self._unread) < length:
            self._more()
        body, self._unread = self._unread[:length], self._unread[length:]
        return int(status.split(" ")[1]), fields, body

    def rest(self) -> bytes:
        """Read until the server closes; return the unread bytes."""
        try:
            while True:
                self._more()
        except (EOFError, OSError):
            return self._unread

    def _more(self) -> None:
        data = self.tls.recv(65536)
        if not data:
            raise EOFError
        self._unread += data

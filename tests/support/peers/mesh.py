"""A workload API for tests of the launcher, without a coordinator, over real TLS and gRPC.

The keys and certificates are those of a real coordinator. A test can change a part of the answer.
Other tests run the launcher with the real coordinator.
"""

import asyncio
import socket
import ssl
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from datetime import UTC, datetime, timedelta
from functools import cache
from types import TracebackType
from typing import Any, Self

import grpclib
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_der_private_key,
)
from cryptography.x509.oid import NameOID
from grpclib.const import Cardinality, Handler
from grpclib.server import Server, Stream
from OpenSSL import SSL

from keyhouse.authority import CoordinatorKeys, make_coordinator_keys
from keyhouse.base.secret import Secret
from keyhouse.launcher.tls import TlsSession
from keyhouse.wire.marble_pb2 import ActivationReq, ActivationResp

__all__ = ["AnyClient", "MeshPeer", "coordinator_keys", "leaf_for", "pem", "predefined"]

Bend = Callable[[dict[str, bytes]], None]
"""Changes the variables of an answer before the peer sends it."""


@cache
def coordinator_keys(number: int) -> CoordinatorKeys:
    """Return the keys of coordinator ``number``: the same keys in the whole test run."""
    del number
    return make_coordinator_keys(
        dns_names=["localhost"],
        ip_addresses=[],
        curve="P-256",
        now=datetime.now(UTC),
        simulated=True,
    )


def pem(der: bytes) -> bytes:
    """Return a certificate as PEM."""
    return x509.load_der_x509_certificate(der).public_bytes(Encoding.PEM)


def leaf_for(
    keys: CoordinatorKeys, name: str, kind: str, *, is_ca: bool = False
) -> tuple[bytes, bytes]:
    """Return certificate and key (PEM) of a workload; ``keys`` sign the certificate."""
    signer = load_der_private_key(keys.intermediate_key.reveal(), None)
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    issuer = x509.load_der_x509_certificate(keys.marble_root_cert)
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.now(UTC)
    kind_oid = x509.ObjectIdentifier("1.3.9903.2.1")
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
        .add_extension(x509.UnrecognizedExtension(kind_oid, kind.encode()), critical=False)
        .sign(signer, SHA256())
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return certificate.public_bytes(Encoding.PEM), private


def predefined(keys: CoordinatorKeys, name: str, kind: str) -> dict[str, bytes]:
    """Return the predefined variables of a workload."""
    leaf, private = leaf_for(keys, name, kind)
    return {
        "MARBLE_PREDEFINED_ROOT_CA": pem(keys.marble_root_cert),
        "MARBLE_PREDEFINED_MARBLE_CERTIFICATE_CHAIN": leaf + pem(keys.intermediate_cert),
        "MARBLE_PREDEFINED_PRIVATE_KEY": private,
        "MARBLE_PREDEFINED_COORDINATOR_ROOT_CA": pem(keys.root_cert),
    }


class AnyClient(ssl.SSLContext):
    """A server's TLS context for grpclib, with ``h2``. It accepts any client certificate."""

    def __new__(cls, *_args: object) -> Self:
        return super().__new__(cls, ssl.PROTOCOL_TLS_SERVER)

    def __init__(self, key: Secret, certificate: bytes) -> None:
        self._native = SSL.Context(SSL.TLS_SERVER_METHOD)
        mode = SSL.VERIFY_PEER | SSL.VERIFY_FAIL_IF_NO_PEER_CERT
        self._native.set_verify(mode, lambda *_: True)
        self._native.set_session_cache_mode(SSL.SESS_CACHE_OFF)
        self._native.set_alpn_select_callback(lambda _, offered: offered[offered.index(b"h2")])
        self._native.use_certificate(x509.load_der_x509_certificate(certificate))
        private = load_der_private_key(key.reveal(), None)
        assert isinstance(private, ec.EllipticCurvePrivateKey)
        self._native.use_privatekey(private)

    def wrap_bio(  # type: ignore[override]  # asyncio uses only the methods of a session
        self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, **_options: object
    ) -> "_ServerSession":
        return _ServerSession(SSL.Connection(self._native, None), incoming, outgoing)


class _ServerSession(TlsSession):
    """The server's end of the launcher's session. ``client``: the client's certificate (DER)."""

    def __init__(
        self, connection: SSL.Connection, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO
    ) -> None:
        self.client = b""
        connection.set_accept_state()
        super().__init__(self._keep, connection, incoming, outgoing)

    def _keep(self, leaf: bytes) -> None:
        self.client = leaf


class MeshPeer:
    """Answers activations on 127.0.0.1, in its own thread, while the context lasts.

    The first answers are ``refusals``, in order. ``asked`` has the requests, each with the client's
    certificate (DER).
    """

    def __init__(
        self,
        *,
        keys: CoordinatorKeys | None = None,
        served: tuple[Secret, bytes] | None = None,
        files: dict[str, bytes] | None = None,
        env: dict[str, bytes] | None = None,
        argv: Sequence[str] = (),
        refusals: Sequence[grpclib.GRPCError] = (),
        bend: Bend = lambda _: None,
    ) -> None:
        self.keys = keys or coordinator_keys(0)
        self.asked: list[tuple[ActivationReq, bytes]] = []
        self.port = 0
        key, certificate = served or (self.keys.intermediate_key, self.keys.marble_root_cert)
        self._tls = (key, certificate)
        self._files, self._env, self._argv = files or {}, env or {}, argv
        self._refusals = list(refusals)
        self._bend = bend
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._started: Future[int] = Future()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))

    def __mapping__(self) -> dict[str, Handler]:
        handler = Handler(self._activate, Cardinality.UNARY_UNARY, ActivationReq, ActivationResp)
        return {"/rpc.Marble/Activate": handler}

    async def _activate(self, stream: Stream[Any, Any]) -> None:
        request = await stream.recv_message()
        assert request is not None
        assert stream.peer is not None
        # grpclib exposes the ssl object, which has the client's certificate.
        session = stream.peer._transport.get_extra_info("ssl_object")
        self.asked.append((request, session.client))
        if self._refusals:
            raise self._refusals.pop(0)
        env = predefined(self.keys, request.UUID, request.MarbleType) | self._env
        self._bend(env)
        answer = ActivationResp()
        answer.Parameters.Files.update(self._files)
        answer.Parameters.Env.update(env)
        answer.Parameters.Argv.extend(self._argv)
        await stream.send_message(answer)

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        key, certificate = self._tls
        context = AnyClient(key, certificate)
        server = Server([self])
        listening = socket.create_server(("127.0.0.1", 0))
        await server.start(sock=listening, ssl=context)
        self._started.set_result(listening.getsockname()[1])
        await self._stop.wait()
        server.close()
        await server.wait_closed()

    def __enter__(self) -> Self:
        self._thread.start()
        self.port = self._started.result(timeout=30)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._loop is not None
        assert self._stop is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

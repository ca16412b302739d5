"""Clients of a real coordinator's workload API: gRPC libraries, and HTTP/2 byte by byte."""

import socket
import ssl
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import grpc
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    ResponseReceived,
    SettingsAcknowledged,
    StreamEnded,
    StreamReset,
    TrailersReceived,
)
from h2.exceptions import ProtocolError

from keyhouse.wire.marble_pb2 import ActivationReq, ActivationResp
from support.peers.https import Pair, make_pair, trusting_context

ACTIVATE: Final = "/rpc.Marble/Activate"
WORKLOAD: Final = make_pair("a workload")
PATIENCE: Final = 30.0  # seconds for an answer on a busy machine
HEADERS: Final = (
    (":method", "POST"),
    (":scheme", "https"),
    (":path", ACTIVATE),
    (":authority", "coordinator"),
    ("content-type", "application/grpc"),
    ("te", "trailers"),
)


@cache
def signing_request() -> bytes:
    """Return a CSR (DER) for the name ``web``."""
    key = ec.generate_private_key(ec.SECP256R1())
    names = x509.SubjectAlternativeName([x509.DNSName("web")])
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    request = builder.add_extension(names, critical=False).sign(key, SHA256())
    return request.public_bytes(Encoding.DER)


def request(**fields: Any) -> ActivationReq:
    """Return the request of a new workload of the type ``app``, changed by ``fields``."""
    given: dict[str, Any] = {"CSR": signing_request(), "MarbleType": "app"}
    return ActivationReq(**(given | {"UUID": str(uuid.uuid4())} | fields))


def framed(message: bytes) -> bytes:
    """Return a message with gRPC's prefix: no compression, and the length."""
    return b"\0" + len(message).to_bytes(4, "big") + message


def client_context(
    pair: Pair | None = WORKLOAD,
    *,
    version: ssl.TLSVersion | None = None,
    protocols: tuple[str, ...] = ("h2",),
) -> ssl.SSLContext:
    """Return a client's context that trusts every server."""
    context = trusting_context(version)
    if protocols:
        context.set_alpn_protocols(list(protocols))
    if pair is not None:
        with tempfile.NamedTemporaryFile(suffix=".pem") as file:
            Path(file.name).write_bytes(pair.key_pem + pair.pem)
            context.load_cert_chain(file.name)
    return context


CONTEXT: Final = client_context()


def marble_root(port: int) -> bytes:
    """Return the certificate (DER) that the workload API serves."""
    with Http2Wire(port) as wire:
        served = wire.tls.getpeercert(binary_form=True)
    assert served is not None
    return served


class Ended(NamedTuple):
    """The end of a call."""

    code: grpc.StatusCode
    message: str
    metadata: Mapping[str, str]
    answer: ActivationResp | None = None


@contextmanager
def grpcio(port: int, pair: Pair = WORKLOAD) -> "Iterator[Grpcio]":
    """Connect with grpcio; trust the served certificate."""
    root = ssl.DER_cert_to_PEM_cert(marble_root(port)).encode()
    credentials = grpc.ssl_channel_credentials(root, pair.key_pem, pair.pem)
    with grpc.secure_channel(f"127.0.0.1:{port}", credentials) as channel:
        yield Grpcio(channel)


class Grpcio:
    """A channel of grpcio."""

    def __init__(self, channel: grpc.Channel) -> None:
        self._channel = channel

    def call(self, message: ActivationReq, method: str = ACTIVATE, **options: Any) -> Ended:
        """Make a call; return its end."""
        stub = self._channel.unary_unary(
            method, ActivationReq.SerializeToString, ActivationResp.FromString
        )
        try:
            answer, call = stub.with_call(message, timeout=PATIENCE, **options)
        except grpc.RpcError as error:
            ended: Any = error  # also a grpc.Call, which the types do not show
            sent = [*ended.initial_metadata(), *ended.trailing_metadata()]
            return Ended(ended.code(), ended.details() or "", _texts(sent))
        return Ended(grpc.StatusCode.OK, "", _texts(call.initial_metadata()), answer)


def _texts(metadata: Any) -> dict[str, str]:
    return {str(name): str(value) for name, value in metadata}


class Http2Wire:
    """A connection for frames that no client library sends."""

    def __init__(self, port: int, context: ssl.SSLContext = CONTEXT) -> None:
        raw = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        try:
            self.tls = context.wrap_socket(raw)
        except BaseException:
            raw.close()
            raise
        self.h2 = H2Connection(H2Configuration(header_encoding="utf-8"))
        self._seen: list[Event] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.tls.close()

    def begin(self) -> Self:
        """Send the preface and the settings."""
        self.h2.initiate_connection()
        return self.flush()

    def settle(self) -> Self:
        """Wait for the acknowledgement of the client's settings; only calls follow."""
        while not any(isinstance(event, SettingsAcknowledged) for event in self._events()):
            pass
        return self

    def flush(self) -> Self:
        """Send the pending bytes of h2."""
        self.tls.sendall(self.h2.data_to_send())
        return self

    def send(self, data: bytes) -> Self:
        """Send bytes around h2."""
        self.tls.sendall(data)
        return self

    def headers(self, *more: tuple[str, str], end: bool = False, **changed: str) -> int:
        """Send the headers of a call, with changed values; return the stream's number."""
        stream = self._headers(*more, end=end, **changed)
        self.flush()
        return stream

    def whole(self, message: bytes, *more: tuple[str, str], **changed: str) -> int:
        """Queue a call with ``message`` in gRPC's frame; return the stream's number."""
        stream = self._headers(*more, end=False, **changed)
        self.h2.send_data(stream, message, end_stream=True)
        return stream

    def call(self, message: bytes, *more: tuple[str, str], **changed: str) -> "Answer":
        """Make a call with ``message`` in gRPC's frame; return the answer.

        The call leaves in one piece, so the server's time limit does not pass within the request.
        """
        stream = self.whole(message, *more, **changed)
        self.flush()
        return self.answer(stream)

    def _headers(self, *more: tuple[str, str], end: bool, **changed: str) -> int:
        stream = self.h2.get_next_available_stream_id()
        found = [(name, changed.get(name.strip(":").replace("-", "_"), v)) for name, v in HEADERS]
        self.h2.send_headers(stream, [*found, *more], end_stream=end)
        return stream

    def answer(self, stream: int) -> "Answer":
        """Read until the call on ``stream`` has an answer or a reset."""
        found = Answer({}, b"", None)
        while True:
            for event in self._events():
                if getattr(event, "stream_id", None) != stream:
                    continue
                if isinstance(event, ResponseReceived | TrailersReceived):
                    found.headers.update({str(n): str(v) for n, v in event.headers or ()})
                elif isinstance(event, DataReceived):
                    found = found._replace(data=found.data + (event.data or b""))
                elif isinstance(event, StreamReset):
                    return found._replace(reset=int(event.error_code or 0))
                elif isinstance(event, StreamEnded):
                    return found

    def goodbye(self) -> int | None:
        """Read until the server closes; return the code of its GOAWAY, or None without GOAWAY."""
        code = None
        with suppress(EOFError, OSError):
            while True:
                for event in self._events():
                    if isinstance(event, ConnectionTerminated):
                        code = int(event.error_code or 0)
        return code

    def send_until_cut(self, data: bytes, most: int) -> int:
        """Send ``data`` repeatedly, up to ``most`` bytes; return the number of sent bytes."""
        sent = 0
        with suppress(OSError):
            while sent < most:
                self.tls.sendall(data)
                sent += len(data)
        return sent

    def _events(self) -> list[Event]:
        if self._seen:
            seen, self._seen = self._seen, []
            return seen
        data = self.tls.recv(65536)
        if not data:
            raise EOFError
        try:
            events = self.h2.receive_data(data)
        except ProtocolError:  # h2 processed the end before frames that the server had sent earlier
            raise EOFError from None
        for event in events:
            if isinstance(event, DataReceived) and event.flow_controlled_length:
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        with suppress(OSError):
            self.flush()
        return events


class Answer(NamedTuple):
    """The content of a stream: headers with trailers, data, and the code of a reset."""

    headers: dict[str, str]
    data: bytes
    reset: int | None

    @property
    def status(self) -> int:
        """The status of gRPC."""
        return int(self.headers["grpc-status"])

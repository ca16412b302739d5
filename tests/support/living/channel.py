"""A running workload as a client of a real coordinator's channel, with grpcio."""

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import grpc
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from keyhouse.attestation.quote.binding import renewal_report_data
from keyhouse.base.secret import Secret
from keyhouse.wire import workload_pb2 as wire
from keyhouse.wire.marble_pb2 import ActivationReq
from support.peers.https import Pair
from support.peers.workloads import PATIENCE, grpcio, request
from support.samples.signing_request import signing_request

SERVICE = "/keyhouse.workload.v1.Workload/"

T = TypeVar("T")

_ANSWERS: dict[str, Any] = {
    "Challenge": wire.ChallengeResponse,
    "Renew": wire.RenewResponse,
    "Fetch": wire.FetchResponse,
    "Watch": wire.WatchResponse,
}


class RefusedError(Exception):
    """The coordinator refused a call."""

    def __init__(self, error: Any) -> None:
        super().__init__(error.code(), error.details())
        sent = [*(error.initial_metadata() or ()), *(error.trailing_metadata() or ())]
        self.status = error.code()
        self.code = dict(sent).get("keyhouse-code", "")


class Connection:
    """A connection of a workload."""

    def __init__(self, channel: grpc.Channel) -> None:
        self._channel = channel

    def call(self, method: str, message: Any) -> Any:
        """Return the answer of a method (``Watch``: the first message), or raise RefusedError."""
        if method == "Watch":
            return self.watch(message).next()
        answer = _ANSWERS[method]
        stub = self._channel.unary_unary(
            SERVICE + method, type(message).SerializeToString, answer.FromString
        )
        try:
            return stub(message, timeout=PATIENCE)
        except grpc.RpcError as error:
            raise RefusedError(error) from None

    def watch(self, message: Any | None = None) -> "Stream":
        """Open a stream of ``Watch``."""
        stub = self._channel.unary_stream(
            SERVICE + "Watch",
            wire.WatchRequest.SerializeToString,
            wire.WatchResponse.FromString,
        )
        return Stream(stub(message or wire.WatchRequest(), timeout=PATIENCE))


class Stream:
    """The messages of a call of ``Watch``."""

    def __init__(self, call: Any) -> None:
        self._call = call

    def next(self) -> Any:
        """Return the next message, or raise ``RefusedError`` at the end of the stream."""
        try:
            return next(self._call)
        except grpc.RpcError as error:
            raise RefusedError(error) from None

    def end(self) -> RefusedError:
        """Require the end of the stream now; return the reason."""
        return refusal(self.next)


class RunningWorkload:
    """A workload with a certificate and a key. ``port``: the coordinator's workload API."""

    def __init__(self, port: int, marble_type: str = "app") -> None:
        self.port = port
        self.uuid = str(uuid.uuid4())
        self.env = self.activated(request(MarbleType=marble_type, UUID=self.uuid))
        chain = self.env["MARBLE_PREDEFINED_MARBLE_CERTIFICATE_CHAIN"]
        leaf = x509.load_pem_x509_certificates(chain)[0].public_bytes(Encoding.DER)
        key_pem = self.env["MARBLE_PREDEFINED_PRIVATE_KEY"]
        self.pair = Pair(leaf, Secret(b""), chain, key_pem)
        self.key = ec.generate_private_key(ec.SECP256R1())

    def activated(self, asked: ActivationReq) -> dict[str, bytes]:
        """Return the variables of an activation."""
        with grpcio(self.port) as client:
            ended = client.call(asked)
        assert ended.answer is not None, ended
        return dict(ended.answer.Parameters.Env)

    @contextmanager
    def connected(self) -> Iterator[Connection]:
        """Connect with the present certificate."""
        with grpcio(self.port, self.pair) as client:
            yield Connection(client._channel)

    def renew(self, prove: Callable[[bytes], bytes] | None = None, **fields: Any) -> Any:
        """Renew the certificate.

        ``prove`` returns evidence over report data. ``None``: no evidence; a coordinator accepts
        this in simulation only. ``fields`` replace fields of the request.
        """
        with self.connected() as connection:
            challenge = connection.call("Challenge", wire.ChallengeRequest())
            csr = signing_request(key=self.key)
            bound = renewal_report_data(csr, challenge.nonce, self.pair.certificate)
            evidence = prove(bound) if prove else b""
            asked = {"nonce": challenge.nonce, "csr": csr, "evidence": evidence} | fields
            answer = connection.call("Renew", wire.RenewRequest(**asked))
        chain = [x509.load_der_x509_certificate(each) for each in answer.chain]
        pem = b"".join(each.public_bytes(Encoding.PEM) for each in chain)
        key_pem = self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        self.pair = Pair(answer.chain[0], Secret(b""), pem, key_pem)
        self.key = ec.generate_private_key(ec.SECP256R1())
        return answer

    def call(self, method: str, message: Any) -> Any:
        """Return the answer of a method over a new connection."""
        with self.connected() as connection:
            return connection.call(method, message)

    def public_key(self) -> bytes:
        """Return the public key for the next renewal (DER)."""
        return self.key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def refusal(call: Callable[[], object]) -> RefusedError:
    """Return the refusal of ``call``."""
    try:
        call()
    except RefusedError as refused:
        return refused
    raise AssertionError("the call was not refused")

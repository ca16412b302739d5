"""A running workload: activation, renewal of the certificate, stream and files."""

import os
import uuid
from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Any, Final

from benchmarks.living.wire import Wire, client_context
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from OpenSSL import SSL

from keyhouse.attestation.quote.binding import renewal_report_data
from keyhouse.wire import marble_pb2, workload_pb2

__all__ = ["STREAM", "TYPE", "Evidence", "Workload"]

TYPE: Final = "web"
STREAM: Final = 1
"""The stream of ``Watch``: the first call of its connection."""

_SERVICE: Final = "/keyhouse.workload.v1.Workload/"
_NAMES: Final = x509.SubjectAlternativeName(
    [
        x509.DNSName("web"),
        x509.IPAddress(IPv4Address("127.0.0.1")),
        x509.IPAddress(IPv6Address("::1")),
    ]
)
"""The names that the launcher requests with the setting ``web``."""

Evidence = Callable[[bytes], bytes]
"""A function that returns a quote with the given report data."""


def _request(key: ec.EllipticCurvePrivateKey) -> bytes:
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    request = builder.add_extension(_NAMES, critical=False).sign(key, hashes.SHA256())
    return request.public_bytes(Encoding.DER)


class Workload:
    """A workload with its certificate and key, and the file ``file`` in ``folder``.

    ``stranger`` is a context with any certificate and key, for the activation. ``evidence`` makes
    the quotes of renewals; None renews without quotes.
    """

    def __init__(
        self, port: int, folder: Path, stranger: SSL.Context, evidence: Evidence | None = None
    ) -> None:
        self._port = port
        self._evidence = evidence
        self.version: Any = workload_pb2.Version()
        name = str(uuid.uuid4())
        self.file = folder / f"{name}.txt"
        self._fresh: tuple[ec.EllipticCurvePrivateKey, bytes] | None = None
        self._context: SSL.Context | None = None
        key = ec.generate_private_key(ec.SECP256R1())
        request = marble_pb2.ActivationReq(CSR=_request(key), MarbleType=TYPE, UUID=name)
        wire = Wire(port, stranger)
        try:
            answer = wire.call("/rpc.Marble/Activate", request.SerializeToString())
        finally:
            wire.close()
        given = marble_pb2.ActivationResp.FromString(answer).Parameters.Env
        private = load_pem_private_key(given["MARBLE_PREDEFINED_PRIVATE_KEY"], None)
        assert isinstance(private, ec.EllipticCurvePrivateKey)  # noqa: S101 such keys are made
        self._key = private
        chain = given["MARBLE_PREDEFINED_MARBLE_CERTIFICATE_CHAIN"]
        self._certificate = x509.load_pem_x509_certificates(chain)[0].public_bytes(Encoding.DER)

    def prepare(self) -> None:
        """Make the next key with a signing request, and a context with the present key.

        In a deployment each workload does this on a separate machine. So a measurement prepares
        all workloads before the clock starts.
        """
        self._own_context()
        if self._fresh is None:
            key = ec.generate_private_key(ec.SECP256R1())
            self._fresh = key, _request(key)

    def renew(self) -> None:
        """Renew the certificate over a new connection."""
        self.prepare()
        assert self._fresh is not None  # noqa: S101 it is prepared
        key, request = self._fresh
        wire = Wire(self._port, self._own_context())
        try:
            answer = wire.call(_SERVICE + "Challenge", b"")
            nonce = workload_pb2.ChallengeResponse.FromString(answer).nonce
            evidence = b""
            if self._evidence is not None:
                evidence = self._evidence(renewal_report_data(request, nonce, self._certificate))
            asked = workload_pb2.RenewRequest(nonce=nonce, csr=request, evidence=evidence)
            answer = wire.call(_SERVICE + "Renew", asked.SerializeToString())
        finally:
            wire.close()
        self._certificate = workload_pb2.RenewResponse.FromString(answer).chain[0]
        self._key, self._fresh, self._context = key, None, None

    def watch(self) -> Wire:
        """Open a stream, and return the connection after the first message."""
        wire = Wire(self._port, self._own_context())
        wire.message(wire.begin(_SERVICE + "Watch", b""))
        return wire

    def fetch(self, wire: Wire) -> None:
        """Read changed parts over ``wire``, and replace the file as an agent does."""
        asked = workload_pb2.FetchRequest(have=self.version)
        answer = wire.call(_SERVICE + "Fetch", asked.SerializeToString())
        found = workload_pb2.FetchResponse.FromString(answer)
        self.version = found.version
        for content in found.files.values():
            beside = self.file.with_suffix(".new")
            with beside.open("wb") as file:
                file.write(b"".join(piece.data for piece in content.piece))
                file.flush()
                os.fsync(file.fileno())
            beside.rename(self.file)

    def _own_context(self) -> SSL.Context:
        if self._context is None:
            self._context = client_context(self._certificate, self._key)
        return self._context

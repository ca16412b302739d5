"""A workload that runs: it activates, renews its certificate, watches and reads its files."""

import os
import ssl
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from benchmarks.living.wire import Wire
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from keyhouse.attestation.quote.binding import renewal_report_data
from keyhouse.wire import marble_pb2, workload_pb2

__all__ = ["STREAM", "TYPE", "Evidence", "Workload"]

TYPE: Final = "web"
STREAM: Final = 1
"""The stream of ``Watch``: the first call of its connection."""

_SERVICE: Final = "/keyhouse.workload.v1.Workload/"
_NAMES: Final = x509.SubjectAlternativeName([x509.DNSName("web")])

Evidence = Callable[[bytes], bytes]
"""Returns a quote with the report data."""


def _request(key: ec.EllipticCurvePrivateKey) -> bytes:
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    request = builder.add_extension(_NAMES, critical=False).sign(key, hashes.SHA256())
    return request.public_bytes(Encoding.DER)


class Workload:
    """A workload with its certificate and key in the file ``identity``.

    ``stranger``: a file with any certificate and key, for the activation. ``evidence``: None if the
    simulated platform needs none.
    """

    def __init__(
        self, port: int, folder: Path, stranger: Path, evidence: Evidence | None = None
    ) -> None:
        self._port = port
        self._evidence = evidence
        self.version: Any = workload_pb2.Version()
        name = str(uuid.uuid4())
        self.identity = folder / f"{name}.pem"
        self.file = folder / f"{name}.txt"
        key = ec.generate_private_key(ec.SECP256R1())
        request = marble_pb2.ActivationReq(CSR=_request(key), MarbleType=TYPE, UUID=name)
        wire = Wire(port, stranger)
        try:
            answer = wire.call("/rpc.Marble/Activate", request.SerializeToString())
        finally:
            wire.close()
        given = marble_pb2.ActivationResp.FromString(answer).Parameters.Env
        self._keep(
            given["MARBLE_PREDEFINED_MARBLE_CERTIFICATE_CHAIN"],
            load_pem_private_key(given["MARBLE_PREDEFINED_PRIVATE_KEY"], None),
        )

    def renew(self) -> None:
        """Renew the certificate over a new connection."""
        key = ec.generate_private_key(ec.SECP256R1())
        request = _request(key)
        wire = Wire(self._port, self.identity)
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
        chain = workload_pb2.RenewResponse.FromString(answer).chain
        self._keep("".join(map(ssl.DER_cert_to_PEM_cert, chain)).encode(), key)

    def watch(self) -> Wire:
        """Open a stream, and return its connection after the first message."""
        wire = Wire(self._port, self.identity)
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

    def _keep(self, chain: bytes, key: Any) -> None:
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        certificate, *_ = x509.load_pem_x509_certificates(chain)
        self._certificate = certificate.public_bytes(Encoding.DER)
        self.identity.write_bytes(private + chain)

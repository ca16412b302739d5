"""A PCCS for trials and tests: real HTTPS, Intel's PCS in version 4, and faults on demand.

::

    python -m keyhouse_simulation.pccs keyhouse-data/simulation [--port 8081] [--ca pccs-ca.pem]
        [--fault stale=0.5 --fault slow=1] [--seed 7]

This command serves the collateral of the simulated machine in the folder. A fault happens to each
request with the given probability. Equal seeds and requests give equal faults. The server stores
nothing. No production platform trusts this collateral, because the simulated vendor signs it.
"""

import argparse
import ipaddress
import random
import ssl
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final, Self
from urllib.parse import parse_qs, quote, urlsplit

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from keyhouse.attestation import (
    Collateral,
    CollateralRefusedError,
    PlatformKind,
    Tee,
    read_collateral,
    read_facts,
)
from keyhouse.attestation.platforms.find import SIMULATED_BUNDLES
from keyhouse_simulation.certificates import issue_authority, issue_leaf
from keyhouse_simulation.machine import make_machine, pem
from keyhouse_simulation.platform import SimulatedPlatform
from keyhouse_simulation.record import UnusableRecordError, read_record

_LAST_PORT = 65_535
_STALE = timedelta(days=30)  # the age of stale collateral
_NOBODY = 20.0  # seconds until the server closes a slow connection


class PccsFault(StrEnum):
    """The faults of a PCCS."""

    SLOW = "slow"  # no answer for 20 seconds, then the end of the connection
    NOT_FOUND = "404"
    STALE = "stale"  # earlier collateral: see ``ServedCollateral.stale``
    GARBAGE = "garbage"  # bytes outside the format
    WRONG_CA = "wrong-ca"  # collateral of a different vendor: see ``ServedCollateral.foreign``


@dataclass(frozen=True)
class ServedCollateral:
    """The collateral of one kind of platform, and its replacements for the faults.

    ``early`` is the answer to ``update=early``; the default is the usual answer.
    """

    collateral: Collateral
    stale: Collateral | None = None
    foreign: Collateral | None = None
    early: Collateral | None = None

    @property
    def kind(self) -> PlatformKind:
        """The kind of platform of this collateral."""
        return read_facts(self.collateral).kind


class PccsServer:
    """A PCCS on 127.0.0.1, for a ``with`` block. Clients must trust ``ca_pem``.

    ``served``, ``faults`` (each with its probability) and ``port`` may change at any time (``port``
    only before the start). ``asked`` has path and query of every request so far.
    """

    def __init__(
        self,
        served: Sequence[ServedCollateral],
        *,
        faults: Mapping[PccsFault, float] | None = None,
        seed: int = 0,
        port: int = 0,
    ) -> None:
        self.served = list(served)
        self.faults = dict(faults or {})
        self.port = port
        self.asked: list[str] = []
        self._chance = random.Random(seed)  # noqa: S311 - faults must be repeatable, not secret
        self._lock = threading.Lock()
        self.stopping = threading.Event()
        self.ca_pem, self._identity = _identity()
        self._server: ThreadingHTTPServer | None = None
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """The base address."""
        return f"https://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self.stopping.clear()
        self._server = _Listener(("127.0.0.1", self.port), _handler(self), _tls(self._identity))
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        if self._server is not None and self._thread is not None:
            self._server.shutdown()
            self._thread.join()
            self._server.server_close()

    def record_request(self, target: str) -> PccsFault | None:
        """Record a request; return its fault, or None."""
        with self._lock:
            self.asked.append(target)
            for fault, probability in self.faults.items():
                if self._chance.random() < probability:
                    return fault
        return None

    def answer(self, target: str, fault: PccsFault | None) -> tuple[int, Mapping[str, str], bytes]:
        """Return status, headers and body for path and query ``target``."""
        if fault is PccsFault.GARBAGE:
            return 200, {}, b'{"tcbInfo":{"fmspc":"\xff'
        found = None if fault is PccsFault.NOT_FOUND else self._find(target)
        if found is None:
            return 404, {}, b"not found"
        served, write = found
        replacements = {PccsFault.STALE: served.stale, PccsFault.WRONG_CA: served.foreign}
        early = served.early if "update=early" in target else None
        headers, body = write((fault and replacements.get(fault)) or early or served.collateral)
        return 200, headers, body

    def _find(self, target: str) -> "tuple[ServedCollateral, Writer] | None":
        parts = urlsplit(target)
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        write = _WRITERS.get(parts.path)
        if write is None:
            return None
        tee = Tee.TDX if parts.path.startswith("/tdx/") else Tee.SGX
        is_document = "tcb" in parts.path or "qe" in parts.path
        for served in self.served:
            kind = served.kind
            right = not is_document or kind.tee is tee
            right = right and query.get("fmspc", kind.fmspc).lower() == kind.fmspc
            if right and query.get("ca", kind.ca) == kind.ca:
                return served, write
        return None


Writer = Callable[[Collateral], tuple[Mapping[str, str], bytes]]


def _tcb(collateral: Collateral) -> tuple[Mapping[str, str], bytes]:
    body = _signed("tcbInfo", collateral.tcb_info, collateral.tcb_info_signature)
    return {"TCB-Info-Issuer-Chain": quote(collateral.tcb_info_issuer_chain)}, body


def _qe_identity(collateral: Collateral) -> tuple[Mapping[str, str], bytes]:
    body = _signed("enclaveIdentity", collateral.qe_identity, collateral.qe_identity_signature)
    return {"SGX-Enclave-Identity-Issuer-Chain": quote(collateral.qe_identity_issuer_chain)}, body


def _pck_crl(collateral: Collateral) -> tuple[Mapping[str, str], bytes]:
    return {"SGX-PCK-CRL-Issuer-Chain": quote(collateral.pck_crl_issuer_chain)}, collateral.pck_crl


def _root_crl(collateral: Collateral) -> tuple[Mapping[str, str], bytes]:
    return {}, collateral.root_ca_crl.hex().encode()  # Intel's PCCS uses this form


_WRITERS: Final[Mapping[str, Writer]] = {
    "/sgx/certification/v4/tcb": _tcb,
    "/tdx/certification/v4/tcb": _tcb,
    "/sgx/certification/v4/qe/identity": _qe_identity,
    "/tdx/certification/v4/qe/identity": _qe_identity,
    "/sgx/certification/v4/pckcrl": _pck_crl,
    "/sgx/certification/v4/rootcacrl": _root_crl,
}


def _signed(name: str, document: str, signature: bytes) -> bytes:
    return f'{{"{name}":{document},"signature":"{signature.hex()}"}}'.encode()


class _Listener(ThreadingHTTPServer):
    """Serves TLS. Reports no failed handshake, because only the client can fix a handshake."""

    daemon_threads = True
    block_on_close = True

    def __init__(
        self,
        address: tuple[str, int],
        handler: type[BaseHTTPRequestHandler],
        context: ssl.SSLContext,
    ) -> None:
        super().__init__(address, handler)
        self.socket = context.wrap_socket(
            self.socket, server_side=True, do_handshake_on_connect=False
        )

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore a client that ends the connection."""


def _handler(server: PccsServer) -> type[BaseHTTPRequestHandler]:
    class PccsHandler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = _NOBODY

        def do_GET(self) -> None:
            fault = server.record_request(self.path)
            if fault is PccsFault.SLOW:
                server.stopping.wait(_NOBODY)
                self.close_connection = True
                return
            status, headers, body = server.answer(self.path, fault)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Connection", "close")  # so no thread waits for a further request
            self.end_headers()
            self.wfile.write(body)
            self.close_connection = True

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
            """Log nothing: ``asked`` has the request."""

    return PccsHandler


def _identity() -> tuple[bytes, bytes]:
    """Return the PEM of a new CA, and the PEM of the server's key and certificate below this CA."""
    start = datetime.now(UTC) - timedelta(days=1)
    ca_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    authority = ("Keyhouse Simulation PCCS CA", ca_key)
    ca = issue_authority(authority[0], ca_key, authority, start)
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    leaf = issue_leaf("Keyhouse Simulation PCCS", key, authority, start, names=names)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return pem(ca).encode(), private + pem(leaf).encode()


def _tls(identity: bytes) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # ``ssl`` reads keys only from files. This key is new for each run and serves no other purpose.
    with tempfile.NamedTemporaryFile(suffix=".pem") as file:
        file.write(identity)
        file.flush()
        context.load_cert_chain(file.name)
    return context


def _fault(text: str) -> tuple[PccsFault, float]:
    name, _, number = text.partition("=")
    try:
        fault, probability = PccsFault(name), float(number or "1")
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"is not one of {', '.join(PccsFault)}, or has no number"
        ) from None
    if not 0 <= probability <= 1:
        raise argparse.ArgumentTypeError("has a probability of 0 to 1")
    return fault, probability


def _port(text: str) -> int:
    port = int(text)
    if not 0 <= port <= _LAST_PORT:
        raise argparse.ArgumentTypeError("is not one of 0 to 65535")
    return port


def _served(folder: Path) -> tuple[ServedCollateral, ServedCollateral]:
    """Return the collateral of the machine in ``folder``, for quotes of enclaves and of VMs.

    Each result includes stale collateral, and collateral of a different vendor, for the faults.
    Raises ``OSError``, ``CollateralRefusedError`` and ``UnusableRecordError`` if the folder has no
    machine.
    """
    now = datetime.now(UTC)
    machine = read_record((folder / "machine.json").read_bytes())
    sgx, tdx = (read_collateral((folder / name).read_bytes()) for name in SIMULATED_BUNDLES)
    stale = SimulatedPlatform(machine, now=lambda: now - _STALE)
    foreign = SimulatedPlatform(make_machine(now))
    return (
        ServedCollateral(sgx, stale=stale.collateral, foreign=foreign.collateral),
        ServedCollateral(tdx, stale=stale.td_collateral, foreign=foreign.td_collateral),
    )


def from_arguments(words: Sequence[str]) -> tuple[PccsServer, Path | None]:
    """Return the server for a command line, and the path for the PEM of its CA.

    Ends the process for invalid arguments, or for a folder without a simulated machine.
    """
    parser = argparse.ArgumentParser(prog="python -m keyhouse_simulation.pccs")
    parser.add_argument("folder", type=Path, help="folder of a simulated machine")
    parser.add_argument("--port", type=_port, default=8081)
    parser.add_argument("--ca", type=Path, help="file for the CA certificate that clients trust")
    parser.add_argument("--fault", type=_fault, action="append", default=[])
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(words)
    try:
        served = _served(given.folder)
    except (OSError, CollateralRefusedError, UnusableRecordError):
        parser.error(f"{given.folder} is not the folder of a simulated machine")
    server = PccsServer(served, faults=dict(given.fault), seed=given.seed, port=given.port)
    return server, given.ca


def main(words: Sequence[str]) -> None:
    """Serve until the process ends."""
    server, ca = from_arguments(words)
    try:
        if ca is not None:
            ca.write_bytes(server.ca_pem)
        with server:
            sys.stderr.write(f"SIMULATED PCCS on {server.url}\n")
            threading.Event().wait()
    except OSError as error:
        sys.exit(f"error: {error.strerror or 'cannot serve'}: use another --port, or --ca")


if __name__ == "__main__":
    main(sys.argv[1:])

"""Client certificates that would cost the event loop much: refused on both ports, others served."""

import json
import socket
import ssl
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import Final, Self

import pytest
from cryptography.hazmat.primitives.asymmetric import dsa, ec, rsa
from support.peers.https import Pair, make_pair
from support.peers.workloads import Http2Wire, client_context, framed, request
from support.process.server import PATIENCE, Server
from support.samples.deployment import manifest
from support.samples.fixed_keys import COSTLY, LARGEST, RSA_4096, dsa_key, unused_rsa_key

from keyhouse.manifest.check import check
from keyhouse.server.net.connections import COSTLY_KEY, TOO_LARGE
from keyhouse.server.net.grpc_status import GrpcStatus
from keyhouse.server.net.limits import ConnectionLimits

pytestmark = pytest.mark.acceptance

Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | dsa.DSAPrivateKey

VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]
PROTOCOLS = {"Client API": "http/1.1", "workload API": "h2"}
ISSUER: Final = "an issuer with "
UNUSABLE: Final[dict[str, Callable[[], Key]]] = {  # as the certificate of a user
    **{name: partial(COSTLY.__getitem__, name) for name in COSTLY},
    "DSA": dsa_key,
    "Brainpool": partial(ec.generate_private_key, ec.BrainpoolP256R1()),
    "secp256k1": partial(ec.generate_private_key, ec.SECP256K1()),
}
USUAL: Final[dict[str, Callable[[], Key]]] = {
    "RSA 2048": unused_rsa_key,
    "RSA 4096": lambda: RSA_4096,
    "RSA, large, exponent of 32 bits": lambda: LARGEST,
    "P-256": partial(ec.generate_private_key, ec.SECP256R1()),
    "P-384": partial(ec.generate_private_key, ec.SECP384R1()),
}
LARGE: Final = make_pair("large", padding=ConnectionLimits().handshake_bytes - 4096)
OVERSIZED: Final = make_pair("too large", padding=ConnectionLimits().handshake_bytes)

each_version = pytest.mark.parametrize("version", VERSIONS, ids=["tls12", "tls13"])
each_port = pytest.mark.parametrize("api", PROTOCOLS)
each_costly = pytest.mark.parametrize("name", [*COSTLY, *(ISSUER + name for name in COSTLY)])


@cache
def pair_of(name: str) -> Pair:
    """Return the certificate with a key that is called ``name``.

    Where that is of an issuer, the key of the leaf is a usual one.
    """
    issuer = name.removeprefix(ISSUER)
    if issuer == name:
        return make_pair(name, key=(UNUSABLE | USUAL)[name]())
    leaf = make_pair("a", issuer=(issuer, COSTLY[issuer]))
    return leaf._replace(pem=leaf.pem + pair_of(issuer).pem)


@pytest.fixture(name="server", scope="module")
def running_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("handshakes") / "data") as server:
        with server.client() as client:
            assert client.set_manifest(manifest()).status == 200
        yield server


def port_of(server: Server, api: str) -> int:
    return server.port if api == "Client API" else server.mesh_port


class Handshake:
    """A client's handshake whose records are sent one by one."""

    def __init__(self, port: int, context: ssl.SSLContext) -> None:
        self.raw = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._incoming, self._outgoing)
        self.unsent: list[bytes] = []

    def __enter__(self) -> Self:
        self._advance()
        self.send(len(self.unsent))
        while not self.unsent:
            self.receive()
        return self

    def __exit__(self, *_: object) -> None:
        self.raw.close()

    def send(self, count: int) -> None:
        """Send the next ``count`` records."""
        self.raw.sendall(b"".join(self.unsent[:count]))
        del self.unsent[:count]

    def send_certificate(self) -> None:
        """Send up to the certificate: a proof of its key comes behind."""
        begins_with_change = self.unsent[0][0] == 20
        self.send(2 if begins_with_change else 1)
        assert len(self.unsent) > 1

    def receive(self) -> None:
        """Take in what the server sends next; raise ``SSLError`` where that is an alert."""
        data = self.raw.recv(65536)
        if not data:
            raise EOFError
        self._incoming.write(data)
        self._advance()

    def _advance(self) -> None:
        try:
            self.tls.do_handshake()
            self.tls.read()
        except ssl.SSLWantReadError:
            pass
        flight = self._outgoing.read()
        while flight:
            size = 5 + int.from_bytes(flight[3:5])
            self.unsent.append(flight[:size])
            flight = flight[size:]


def is_served(server: Server, api: str, context: ssl.SSLContext) -> bool:
    """Make a request; return whether it is answered."""
    try:
        if api == "workload API":
            with Http2Wire(server.mesh_port, context) as wire:
                answer = wire.begin().call(framed(request().SerializeToString()))
                return answer.status == GrpcStatus.OK
        with (
            socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as raw,
            context.wrap_socket(raw) as tls,
        ):
            tls.sendall(b"GET /api/v2/status HTTP/1.1\r\nHost: a\r\n\r\n")
            return tls.recv(65536).startswith(b"HTTP/1.1 200 ")
    except (OSError, EOFError):
        return False


@each_costly
@each_version
@each_port
def test_costly_key_is_refused_before_its_proof_is_read(
    server: Server, api: str, version: ssl.TLSVersion, name: str
) -> None:
    context = client_context(pair_of(name), version=version, protocols=(PROTOCOLS[api],))
    with Handshake(port_of(server, api), context) as client:
        client.send_certificate()
        with pytest.raises(ssl.SSLError, match=r"(?i)alert.unsupported.certificate"):
            client.receive()


@pytest.mark.parametrize("name", USUAL)
@each_version
@each_port
def test_usual_key_is_served(server: Server, api: str, version: ssl.TLSVersion, name: str) -> None:
    context = client_context(pair_of(name), version=version, protocols=(PROTOCOLS[api],))
    assert is_served(server, api, context)


@pytest.mark.parametrize("name", [*UNUSABLE, *USUAL])
def test_manifest_check_warns_of_users_whose_key_no_handshake_takes(
    server: Server, name: str
) -> None:
    pair = pair_of(name)
    document = json.loads(manifest())
    document["Users"]["late"] = {"Certificate": pair.pem.decode(), "Roles": []}
    checked = check(json.dumps(document).encode(), now=datetime.now(UTC))
    refused = "TLS does not accept"
    warned = [str(warning) for warning in checked.warnings if refused in warning.problem]
    assert len(warned) == (name in UNUSABLE)
    assert all("Users.late.Certificate" in warning for warning in warned)
    for version in VERSIONS:  # there a client must have a certificate
        try:
            context = client_context(pair, version=version)
        except ssl.SSLError:  # the library of the client cannot use such a key itself
            assert name in UNUSABLE
        else:
            assert is_served(server, "workload API", context) is (name in USUAL)


@each_version
@each_port
def test_size_of_a_certificate_is_bounded(
    server: Server, api: str, version: ssl.TLSVersion
) -> None:
    protocols = (PROTOCOLS[api],)
    assert is_served(server, api, client_context(LARGE, version=version, protocols=protocols))
    context = client_context(OVERSIZED, version=version, protocols=protocols)
    assert not is_served(server, api, context)


def test_refused_handshakes_are_logged_with_their_reason(tmp_path: Path) -> None:
    costly = pair_of(next(iter(COSTLY)))
    with Server(tmp_path / "data") as server:
        with server.client() as client:
            assert client.set_manifest(manifest()).status == 200
        for api, protocol in PROTOCOLS.items():
            for pair in (costly, OVERSIZED):
                assert not is_served(server, api, client_context(pair, protocols=(protocol,)))
    logged = server.logged()
    assert logged.count(COSTLY_KEY) == 2
    assert logged.count(TOO_LARGE) == 2

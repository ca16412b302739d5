"""One activation over real TLS and gRPC: what is sent, what is taken, who is refused when."""

import asyncio
import signal
import socket
import ssl
import threading
import uuid
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_der_private_key,
    load_pem_private_key,
)
from grpclib import GRPCError
from grpclib.const import Status
from support.peers.https import running
from support.peers.mesh import AnyClient, MeshPeer, coordinator_keys, leaf_for, pem
from support.samples.odd_certificates import odd_certificates

from keyhouse.authority import make_coordinator_keys
from keyhouse.base.errors import BrokenError, KeyhouseError, RefusedError, UnavailableError
from keyhouse.base.secret import Secret
from keyhouse.launcher import (
    ActivationRefusedError,
    Anchor,
    CoordinatorNotTrustedError,
    Delivered,
    NotReachableError,
    NotReadyError,
    Request,
    activate,
    make_credentials,
    read_names,
    run,
    within,
)
from keyhouse.launcher.tls import MOST_RECEIVED
from keyhouse.wire.address import Address

OURS, THEIRS = coordinator_keys(0), coordinator_keys(1)
FULL, ROOT_ALONE = Anchor(OURS.root_cert, OURS.intermediate_cert), Anchor(OURS.root_cert)
CREDENTIALS = make_credentials(read_names("localhost"))
WHO = uuid.UUID("6ba7b810-9dad-41d1-80b4-00c04fd430c8")


def _request(port: int) -> Request:
    return Request(Address("127.0.0.1", port), CREDENTIALS, b"a quote", "web", WHO)


async def _activate(port: int, anchor: Anchor | None = FULL, seconds: float = 30) -> Delivered:
    return await activate(_request(port), anchor, seconds)


@pytest.mark.parametrize("anchor", [FULL, ROOT_ALONE, None], ids=["full", "root", "none"])
async def test_request_and_answer_are_whole(anchor: Anchor | None) -> None:
    big = b"x" * 3_000_000
    with MeshPeer(files={"/a": b"\0\xff", "b": big}, env={"A": b"1"}, argv=["p", "-v"]) as peer:
        found = await _activate(peer.port, anchor)

    assert found.files == {"/a": Secret(b"\0\xff"), "b": Secret(big)}
    assert found.env["A"] == Secret(b"1")
    assert found.argv == ("p", "-v")
    [(request, leaf)] = peer.asked
    assert leaf == CREDENTIALS.certificate
    assert (request.Quote, request.MarbleType, request.UUID) == (b"a quote", "web", str(WHO))
    assert x509.load_der_x509_csr(request.CSR).is_signature_valid


@pytest.mark.parametrize("anchor", [FULL, ROOT_ALONE], ids=["full", "root"])
async def test_another_coordinator_is_refused(anchor: Anchor) -> None:
    with MeshPeer(keys=THEIRS) as peer, pytest.raises(CoordinatorNotTrustedError):
        await _activate(peer.port, anchor)

    # With the intermediate at hand it was refused before it had got anything.
    assert len(peer.asked) == (0 if anchor is FULL else 1)


async def test_coordinator_with_keys_of_the_other_curve_is_taken() -> None:
    keys = make_coordinator_keys(
        dns_names=[], ip_addresses=[], curve="P-384", now=datetime.now(UTC), simulated=True
    )
    with MeshPeer(keys=keys) as peer:
        await _activate(peer.port, Anchor(keys.root_cert, keys.intermediate_cert))


async def test_another_coordinator_is_refused_over_tls_1_2_too(tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["h2"])
    key = load_der_private_key(THEIRS.intermediate_key.reveal(), None)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (tmp_path / "their.pem").write_bytes(private + pem(THEIRS.marble_root_cert))
    context.load_cert_chain(tmp_path / "their.pem")

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.read() == b""
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0, ssl=context)
    async with server:
        with pytest.raises(CoordinatorNotTrustedError, match="key and subject"):
            await _activate(server.sockets[0].getsockname()[1])


async def test_workload_of_the_same_root_is_no_coordinator() -> None:
    """Its certificate verifies under the root, perhaps for the coordinator's name."""
    leaf, private = leaf_for(OURS, "coordinator", "web")
    key = load_pem_private_key(private, None)
    served = (
        Secret(key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())),
        x509.load_pem_x509_certificate(leaf).public_bytes(Encoding.DER),
    )
    for anchor in (FULL, ROOT_ALONE, None):
        with MeshPeer(served=served) as peer, pytest.raises(CoordinatorNotTrustedError):
            await _activate(peer.port, anchor)
        assert peer.asked == []


async def test_peer_whose_certificate_no_library_takes_is_no_coordinator(tmp_path: Path) -> None:
    key = load_der_private_key(OURS.intermediate_key.reveal(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    plain = x509.load_der_x509_certificate(OURS.marble_root_cert)
    odd = dict(odd_certificates(plain, key))["of version 2"]
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (tmp_path / "odd.pem").write_bytes(private + ssl.DER_cert_to_PEM_cert(odd).encode())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_alpn_protocols(["h2"])
    context.load_cert_chain(tmp_path / "odd.pem")

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0, ssl=context)
    async with server:
        with pytest.raises(CoordinatorNotTrustedError, match=r"TLS certificate .*read"):
            await _activate(server.sockets[0].getsockname()[1])


@pytest.mark.parametrize(
    ("status", "raised", "hint"),
    [
        (Status.UNAVAILABLE, NotReadyError, "keyhouse status"),
        (Status.FAILED_PRECONDITION, NotReadyError, "upload"),
        (Status.DEADLINE_EXCEEDED, NotReachableError, "workload API"),
        (Status.PERMISSION_DENIED, ActivationRefusedError, "manifest"),
        (Status.INVALID_ARGUMENT, ActivationRefusedError, "--dns-names"),
        (Status.UNAUTHENTICATED, ActivationRefusedError, "log"),
        (Status.INTERNAL, ActivationRefusedError, "log"),
        (Status.RESOURCE_EXHAUSTED, ActivationRefusedError, "log"),
    ],
)
async def test_each_status_says_whether_trying_again_helps(
    status: Status, raised: type[KeyhouseError], hint: str
) -> None:
    words = "no: package\x1b[2J\nis \u00fc"
    with MeshPeer(refusals=[GRPCError(status, words)]) as peer, pytest.raises(raised) as refused:
        await _activate(peer.port)

    if status is not Status.DEADLINE_EXCEEDED:
        assert r"no: package\x1b[2J\nis ü" in refused.value.message
        assert status.name in refused.value.message
    assert hint in refused.value.hint


async def test_answer_that_does_not_fit_is_refused() -> None:
    with (
        MeshPeer(env={"MARBLE_PREDEFINED_PRIVATE_KEY": b"none"}) as peer,
        pytest.raises(CoordinatorNotTrustedError, match="private key"),
    ):
        await _activate(peer.port)


async def test_nobody_there_is_unreachable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]

    with pytest.raises(NotReachableError, match="connection refused"):
        await _activate(port)


def test_name_that_does_not_exist_is_unreachable() -> None:
    request = _request(1)._replace(address=Address("nobody.invalid", 1))

    with pytest.raises(NotReachableError):
        run(activate(request, FULL, 30))


def test_resolver_that_does_not_answer_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    answered = threading.Event()

    def look_up(*_: object) -> list[object]:
        answered.wait()
        return []

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    request = _request(1)._replace(address=Address("coordinator.example", 1))

    try:
        with pytest.raises(NotReachableError, match="timed out"):
            run(activate(request, FULL, 0.2))
    finally:
        answered.set()


def test_proof_that_does_not_come_is_not_waited_for() -> None:
    came = threading.Event()
    try:
        with pytest.raises(NotReachableError, match="in time"):
            within(0.05, came.wait)
    finally:
        came.set()
    assert within(30, came.wait)
    with pytest.raises(TimeoutError, match="its own"):
        within(30, partial(_raise, TimeoutError("its own")))


def test_threads_of_look_ups_leave_signals_to_the_main_thread() -> None:
    """The wait for them is there: a signal that such a thread took would not interrupt it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())

    blocked = within(30, partial(signal.pthread_sigmask, signal.SIG_BLOCK, ()))

    assert {signal.SIGINT, signal.SIGTERM} <= blocked
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before


def _raise(error: Exception) -> None:
    raise error


def test_names_are_looked_up_beside_the_loop() -> None:
    with MeshPeer() as peer:
        request = _request(peer.port)._replace(address=Address("localhost", peer.port))
        assert run(activate(request, FULL, 30)).argv == ()


async def test_one_who_accepts_and_is_silent_is_given_up() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        pytest.raises(NotReachableError, match="timed out"),
    ):
        await _activate(silent.getsockname()[1], seconds=0.05)


async def test_peer_that_sends_without_end_is_cut_off() -> None:
    with MeshPeer(files={"a": bytes(MOST_RECEIVED)}) as peer, pytest.raises(NotReachableError):
        await _activate(peer.port)


async def test_peer_of_another_protocol_is_no_coordinator() -> None:
    """The Client API, say: it would not choose h2."""
    with running() as server, pytest.raises((NotReachableError, CoordinatorNotTrustedError)):
        await _activate(server.port)


_SETTINGS = b"\0\0\0\4\0\0\0\0\0"


def _frame(kind: int, flags: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "big") + bytes([kind, flags, 0, 0, 0, 1]) + payload


_HEADERS = _frame(1, 4, b"\x88\x0f\x10\x10application/grpc")  # :status 200, content-type


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\xff" * 100,
        _SETTINGS,
        _SETTINGS + _frame(1, 5, b"\x88"),  # no content-type
        _SETTINGS + _frame(1, 5, _HEADERS[10:]),  # no :status
        _SETTINGS + _frame(1, 5, b"\x8d\x0f\x10\x10application/grpc"),  # :status 404
        _SETTINGS + _HEADERS + _frame(0, 1, b"\1\0\0\0\2{}"),  # compressed
        _SETTINGS + _HEADERS + _frame(0, 1, b"\0\0\0\0\2\xff\xff"),  # no such message
        _SETTINGS + _HEADERS + _frame(0, 1, b"\0\xff\xff\xff\xff"),  # of 4 GiB
        _SETTINGS + _HEADERS + _frame(0, 1, b""),
        _SETTINGS + _frame(3, 0, b"\0\0\0\7"),  # reset
        _SETTINGS + _frame(7, 0, bytes(8)),  # go away, on a wrong stream
    ],
    ids=range(13),
)
async def test_peer_that_speaks_something_else_is_told_by_name(sent: bytes) -> None:
    context = AnyClient(OURS.intermediate_key, OURS.marble_root_cert)

    async def say(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(sent)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(say, "127.0.0.1", 0, ssl=context)
    async with server:
        with pytest.raises((RefusedError, UnavailableError, BrokenError)):
            await _activate(server.sockets[0].getsockname()[1], seconds=5)

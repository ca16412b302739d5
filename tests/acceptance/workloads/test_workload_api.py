"""The workload API of a real coordinator, with the clients that workloads use."""

import asyncio
import http.client
import json
import os
import shutil
import ssl
import subprocess
from base64 import b64encode
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import grpc
import grpclib
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from grpclib.client import Channel, UnaryUnaryMethod
from support.peers.https import make_pair
from support.peers.replicas import Replicas, update
from support.peers.workloads import (
    ACTIVATE,
    WORKLOAD,
    Http2Wire,
    client_context,
    framed,
    grpcio,
    marble_root,
    request,
)
from support.process.server import Server, free_port
from support.replicas.histories import shared_manifest
from support.samples.deployment import manifest, user

from keyhouse.coordinator import Phase
from keyhouse.server.net.grpc_status import GrpcStatus
from keyhouse.wire.marble_pb2 import ActivationReq, ActivationResp

pytestmark = pytest.mark.acceptance

VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]
LARGEST = 4 * 1024 * 1024
GO_CLIENT = Path(__file__).parent / "goactivate"
PREDEFINED = {
    "MARBLE_PREDEFINED_ROOT_CA",
    "MARBLE_PREDEFINED_MARBLE_CERTIFICATE_CHAIN",
    "MARBLE_PREDEFINED_PRIVATE_KEY",
    "MARBLE_PREDEFINED_COORDINATOR_ROOT_CA",
}


def padded(size: int) -> ActivationReq:
    """Return a request of exactly ``size`` bytes whose CSR is invalid."""
    made = request(CSR=b"")
    empty = made.ByteSize()
    for head in range(2, 8):
        made.CSR = bytes(size - empty - head)
        if made.ByteSize() == size:
            return made
    raise AssertionError(size)


# --- clients ---


def test_grpcio_activates_a_workload(running: Server) -> None:
    with grpcio(running.mesh_port) as client:
        for _ in range(3):  # on one connection
            ended = client.call(request())
            assert ended.code is grpc.StatusCode.OK
            assert ended.answer is not None
            assert set(ended.answer.Parameters.Env) == PREDEFINED
            assert ended.metadata["keyhouse-platform"] == "simulation"


@pytest.mark.parametrize("version", VERSIONS)
async def test_grpclib_activates_a_workload(running: Server, version: ssl.TLSVersion) -> None:
    context = client_context(version=version)
    async with Channel("127.0.0.1", running.mesh_port, ssl=context) as channel:
        call = UnaryUnaryMethod[ActivationReq, ActivationResp](
            channel, ACTIVATE, ActivationReq, ActivationResp
        )
        answers = await asyncio.gather(*(call(request()) for _ in range(50)))
        with pytest.raises(grpclib.GRPCError) as refused:
            await call(request(MarbleType="another"))
    await _closed()

    assert all(set(answer.Parameters.Env) == PREDEFINED for answer in answers)
    assert refused.value.status is grpclib.Status.PERMISSION_DENIED
    assert refused.value.message is not None
    assert '"another"' in refused.value.message


async def _closed() -> None:
    """Return once every socket of this loop is closed: the channel itself does not wait."""
    loop: Any = asyncio.get_running_loop()
    async with asyncio.timeout(30):
        while any(  # noqa: ASYNC110 there is no event for it
            transport._sock is not None for transport in loop._transports.values()
        ):
            await asyncio.sleep(0)


def test_activation_whose_handshake_showed_the_former_root_is_not_counted(tmp_path: Path) -> None:
    """What it would get is of the new root: it is told to come again, on a new connection."""
    replicas = Replicas(tmp_path, None)
    message = framed(request(MarbleType="limited").SerializeToString())
    with ExitStack() as stack:
        stack.callback(replicas.end)
        (server,) = replicas.founded(1, shared_manifest())
        wire = stack.enter_context(Http2Wire(server.mesh_port))
        wire.begin().settle()
        update(server, shared_manifest("second"))
        answer = wire.call(message)
        assert answer.status == GrpcStatus.UNAVAILABLE
        assert "the marble root was replaced" in answer.headers["grpc-message"]
        assert wire.goodbye() == 0
        assert _activations(server, "limited") == 0
        with Http2Wire(server.mesh_port) as again:
            assert again.begin().settle().call(message).status == GrpcStatus.OK
        assert _activations(server, "limited") == 1


def _activations(server: Server, marble_type: str) -> int:
    with server.client(user("alice")) as client:
        limits = client.get("/api/v2/counters").data["limits"]
    count = limits[marble_type]["activations"]
    assert isinstance(count, int)
    return count


@pytest.fixture(name="go_client", scope="module")
def built_go_client(tmp_path_factory: pytest.TempPathFactory) -> Path:
    go = shutil.which("go")
    if go is None:
        assert not os.environ.get("CI"), "CI must have go"
        pytest.skip("go is not installed")
    program = tmp_path_factory.mktemp("go") / "goactivate"
    environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly"}
    environment["GOTOOLCHAIN"] = "local"
    command = [go, "build", "-o", str(program), "."]
    subprocess.run(command, cwd=GO_CLIENT, env=environment, check=True, timeout=280)
    return program


@pytest.mark.parametrize("version", ["1.2", "1.3"])
def test_grpc_go_activates_a_workload(
    running: Server, go_client: Path, tmp_path: Path, version: str
) -> None:
    pair, message = tmp_path / "pair.pem", tmp_path / "request"
    pair.write_bytes(WORKLOAD.pem + WORKLOAD.key_pem)
    command = [str(go_client), "-address", f"127.0.0.1:{running.mesh_port}", "-pair", str(pair)]
    command += ["-request", str(message), "-version", version, "-times", "3"]

    def answers(of: ActivationReq) -> list[dict[str, str]]:
        message.write_bytes(of.SerializeToString())
        shown = subprocess.run(command, check=True, capture_output=True, timeout=60).stdout
        found = json.loads(shown)
        assert isinstance(found, list)
        return found

    assert {answer["code"] for answer in answers(request())} == {"OK"}
    assert {answer["code"] for answer in answers(padded(LARGEST))} == {"InvalidArgument"}
    assert {answer["code"] for answer in answers(padded(LARGEST + 1))} == {"ResourceExhausted"}


def test_request_of_four_mebibytes_is_read_and_one_more_byte_is_not(running: Server) -> None:
    with grpcio(running.mesh_port) as client:
        fits = client.call(padded(LARGEST))
        longer = client.call(padded(LARGEST + 1))

    assert fits.code is grpc.StatusCode.INVALID_ARGUMENT
    assert "CSR" in fits.message
    assert longer.code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert str(LARGEST) in longer.message


# --- who may connect ---


@pytest.mark.parametrize("version", VERSIONS)
def test_client_without_a_certificate_is_refused_in_the_handshake(
    running: Server, version: ssl.TLSVersion
) -> None:
    context = client_context(None, version=version)
    with (
        pytest.raises((ssl.SSLError, EOFError)) as refused,
        Http2Wire(running.mesh_port, context) as wire,
    ):
        wire.begin().answer(1)
    if isinstance(refused.value, ssl.SSLError):
        expected = {"TLSV13_ALERT_CERTIFICATE_REQUIRED", "SSLV3_ALERT_HANDSHAKE_FAILURE"}
        assert refused.value.reason in expected


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("protocols", [(), ("http/1.1",), ("h2c", "spdy/3")])
def test_client_without_h2_is_closed(
    running: Server, version: ssl.TLSVersion, protocols: tuple[str, ...]
) -> None:
    context = client_context(version=version, protocols=protocols)
    with pytest.raises((ssl.SSLError, EOFError)), Http2Wire(running.mesh_port, context) as wire:
        wire.begin().answer(1)


# --- what is no call ---


def one(server: Server, message: bytes, *more: tuple[str, str], **changed: str) -> str:
    """Return status and message of a call made by hand."""
    with Http2Wire(server.mesh_port) as wire:
        answer = wire.begin().call(message, *more, **changed)
    return f"{answer.headers['grpc-status']} {answer.headers['grpc-message']}"


def test_invalid_messages_are_refused_by_name(running: Server) -> None:
    good = framed(request().SerializeToString())

    assert one(running, b"").startswith("12 the request has no message (")
    assert one(running, good[:-1]).startswith("3 the message ended too early (")
    assert one(running, good + good).startswith("12 the request has more than one message (")
    assert one(running, b"\1" + good[1:]).startswith("12 the message is compressed (")
    assert one(running, good, ("grpc-encoding", "gzip")).startswith(
        "12 the request is compressed ("
    )
    assert one(running, good, path="/rpc.Marble/Deactivate").startswith(
        "12 the server has no method at this path ("
    )
    assert one(running, framed(b"\xff\xff\xff")).startswith(
        "3 the request: is not an ActivationReq"
    )


def test_what_is_no_grpc_gets_the_status_of_http(running: Server) -> None:
    with Http2Wire(running.mesh_port) as wire:
        wire.begin()
        assert wire.call(b"", method="GET").headers == {":status": "405"}
        assert wire.call(b"", content_type="text/html").headers == {":status": "415"}


def test_refusal_of_grpcio_compression_is_explained(running: Server) -> None:
    with grpcio(running.mesh_port) as client:
        ended = client.call(request(), compression=grpc.Compression.Gzip)

    assert ended.code is grpc.StatusCode.UNIMPLEMENTED
    assert "compressed" in ended.message


# --- phases, and the certificate that is served ---


@pytest.mark.parametrize("phase", [Phase.ACCEPTING_MANIFEST, Phase.RECOVERY])
def test_nobody_joins_before_a_manifest_is_enforced(
    servers: dict[Phase, Server], phase: Phase
) -> None:
    with grpcio(servers[phase].mesh_port) as client:
        ended = client.call(request())

    assert ended.code is grpc.StatusCode.FAILED_PRECONDITION
    assert ended.metadata["keyhouse-code"] == "wrong-phase"


@pytest.fixture
def updatable(tmp_path: Path) -> Iterator[Server]:
    """A coordinator whose package ``app`` the user ``writer`` may update."""
    raw = json.loads(manifest())
    raw["Packages"]["app"] = {"SignerID": "00" * 32, "ProductID": 1, "SecurityVersion": 1}
    raw["Roles"]["update"] = {
        "ResourceType": "Packages",
        "ResourceNames": ["app"],
        "Actions": ["UpdateSecurityVersion"],
    }
    raw["Users"]["writer"]["Roles"].append("update")
    with Server(tmp_path / "updatable") as server:
        with server.client() as client:
            assert client.set_manifest(json.dumps(raw).encode()).status == 200
        yield server


def test_new_connections_get_the_new_marble_root_once_an_update_is_answered(
    updatable: Server,
) -> None:
    update = json.dumps({"Packages": {"app": {"SecurityVersion": 2}}}).encode()
    before = marble_root(updatable.mesh_port)
    with Http2Wire(updatable.mesh_port) as kept, updatable.client(user("writer")) as client:
        kept.begin()
        answer = client.post("/api/v2/update", {"manifest": b64encode(update).decode()})
        assert answer.status == 200, answer.body

        after = marble_root(updatable.mesh_port)
        assert after != before
        with grpcio(updatable.mesh_port) as fresh:
            ended = fresh.call(request())
        # It has seen the former root: it has to connect again.
        assert kept.call(framed(request().SerializeToString())).status == GrpcStatus.UNAVAILABLE

    assert ended.answer is not None
    delivered = ended.answer.Parameters.Env["MARBLE_PREDEFINED_ROOT_CA"]
    assert x509.load_pem_x509_certificate(delivered).fingerprint(SHA256()) == (
        x509.load_der_x509_certificate(after).fingerprint(SHA256())
    )


# --- what is counted, and the end ---


def test_calls_are_counted_under_few_labels(tmp_path: Path) -> None:
    port = free_port()
    with Server(tmp_path / "counted", arguments=["--metrics-addr", f"127.0.0.1:{port}"]) as server:
        with server.client() as client:
            assert client.set_manifest(manifest()).status == 200
        with grpcio(server.mesh_port) as calls:
            assert calls.call(request()).code is grpc.StatusCode.OK
            calls.call(request(MarbleType="none"))
            for number in range(3):
                calls.call(request(), method=f"/strange/{number}")
        text = _scrape(port)

    known = 'grpc_method="Activate",grpc_service="rpc.Marble",grpc_type="unary"'
    strange = known.replace("Activate", "unknown").replace("rpc.Marble", "unknown")
    for line in (
        f"grpc_server_started_total{{{known}}} 2.0",
        f"grpc_server_started_total{{{strange}}} 3.0",
        f"grpc_server_msg_received_total{{{known}}} 2.0",
        f"grpc_server_msg_sent_total{{{known}}} 1.0",
        f'grpc_server_handled_total{{grpc_code="OK",{known}}} 1.0',
        f'grpc_server_handled_total{{grpc_code="PermissionDenied",{known}}} 1.0',
        f'grpc_server_handled_total{{grpc_code="Unimplemented",{strange}}} 3.0',
        "keyhouse_workload_calls_in_flight 0.0",
    ):
        assert line in text.splitlines(), line


def _scrape(port: int) -> str:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    connection.close()
    return text


def test_stop_says_goodbye_to_those_who_are_connected(tmp_path: Path) -> None:
    with Server(tmp_path / "stopped") as server, Http2Wire(server.mesh_port) as wire:
        assert wire.begin().call(framed(b"")).status == GrpcStatus.FAILED_PRECONDITION
        assert server.stop() == 0
        assert wire.goodbye() == 0


def test_identity_of_another_key_type_is_taken(running: Server) -> None:
    pair = make_pair("p384", key=ec.generate_private_key(ec.SECP384R1()))
    with grpcio(running.mesh_port, pair) as client:
        assert client.call(request()).code is grpc.StatusCode.OK

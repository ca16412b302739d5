"""The recorded paths, each in a real coordinator after an equal request.

The first request of a kind loads modules and fills caches, so a recording begins with the second
request. A recording ends with the answer. A coordinator also works beside requests, for example a
second after the start. So each path is recorded three times, and only functions in all recordings
count.
"""

import base64
import ssl
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import grpc
from support.cosigner import Cosigner
from support.peers.witness import Witness, policy
from support.peers.workloads import ACTIVATE, PATIENCE, WORKLOAD, marble_root, request
from support.process.server import Client, Reply
from support.samples.deployment import user
from support.samples.updates import together
from support.witnessed import until_cosigned, until_served

from keyhouse.attestation import Measurements, quote_binding, report_data
from keyhouse.wire.marble_pb2 import ActivationResp
from keyhouse_simulation import SimulatedPlatform
from keyhouse_simulation.record import read_record
from ways.recorded import Calls, RecordedServer

__all__ = ["PATHS", "record_paths"]

PATHS: Final = {
    "upload": "a user uploads a secret on a new connection",
    "activation": "a workload with a quote joins on a new connection; its type has a limit",
    "update": "the only approver applies a manifest; a quorum of the witnesses cosigns",
    "restart": "from the first function of the process to the open port, without imports",
    "read": "a user reads a secret after a change, on a kept connection",
}
"""The names of the paths, with descriptions for ARCHITECTURE.md."""

_TIMES: Final = 3

_ENCLAVE: Final = Measurements(
    unique_id=bytes(32), signer_id=b"\xab" * 32, product_id=7, security_version=3
)


def record_paths(folder: Path) -> dict[str, Calls]:
    """Return the calls on each path. ``folder`` is for the state of the coordinators."""
    with _coordinator(folder / "alone") as server:
        found = {
            "upload": _upload(server),
            "activation": _activation(server),
            "read": _read(server),
        }
        found["restart"] = _common([_restart(server) for _ in range(_TIMES)])
    with ExitStack() as stack:
        cosigners = [Cosigner.ed25519(f"{name}.example/w") for name in "abc"]
        witnesses = [stack.enter_context(Witness(each)) for each in cosigners]
        server = stack.enter_context(_coordinator(folder / "witnessed", witnesses))
        found["update"] = _update(server, witnesses)
    return {name: found[name] for name in PATHS}


def _manifest(word: str = "", witnesses: list[Witness] | None = None) -> bytes:
    rules = {"Witnesses": policy(witnesses, 2), "Serve": "Witnessed"} if witnesses else None

    def limit(content: dict[str, dict[str, dict[str, object]]]) -> None:
        content["Marbles"]["app"]["MaxActivations"] = 1000

    config: dict[str, Any] = {"Transparency": rules} if rules else {}
    return together(limit, updaters=["alice"], word=word, UpdateThreshold=1, **config)


@contextmanager
def _coordinator(folder: Path, witnesses: list[Witness] | None = None) -> Iterator[RecordedServer]:
    folder.mkdir()
    with RecordedServer(folder / "data") as server:
        with server.client() as client:
            _require(client.set_manifest(_manifest(witnesses=witnesses)))
            key = client.get("/api/v2/log/key").data["verifierKey"]
        for witness in witnesses or ():
            witness.trust(key)
        yield server


def _common(recordings: list[Calls]) -> Calls:
    """Return the functions in all ``recordings``, by module."""
    first, *others = recordings
    both = {
        module: [
            each for each in functions if all(each in other.get(module, ()) for other in others)
        ]
        for module, functions in first.items()
    }
    return {module: functions for module, functions in both.items() if functions}


def _restart(server: RecordedServer) -> Calls:
    server.stop()
    return server.start().started


def _upload(server: RecordedServer) -> Calls:
    recordings = []
    with server.client(user("writer")) as client:
        _require(_sent_note(client))
    for _ in range(_TIMES):
        with server.client(user("writer")) as client:
            calls, reply = server.recorded(partial(_sent_note, client))
            _require(reply)
            recordings.append(calls)
    return _common(recordings)


def _read(server: RecordedServer) -> Calls:
    path = "/api/v2/secrets?s=note"
    recordings = []
    with server.client(user("writer")) as client:
        _require(client.get(path))
        for _ in range(_TIMES):
            _require(_sent_note(client))  # the stored answer belongs to the previous view
            calls, reply = server.recorded(lambda: client.get(path))
            _require(reply)
            recordings.append(calls)
    return _common(recordings)


def _activation(server: RecordedServer) -> Calls:
    root = ssl.DER_cert_to_PEM_cert(marble_root(server.mesh_port)).encode()
    credentials = grpc.ssl_channel_credentials(root, WORKLOAD.key_pem, WORKLOAD.pem)
    record = read_record((server.data / "simulation" / "machine.json").read_bytes())
    bound = report_data(quote_binding(WORKLOAD.certificate))
    quote = SimulatedPlatform(record).workload_quote(_ENCLAVE, bound)

    def join(channel: grpc.Channel) -> ActivationResp:
        stub: Any = channel.unary_unary(  # the library has no types
            ACTIVATE, lambda sent: sent.SerializeToString(), ActivationResp.FromString
        )
        message = request(UUID=str(uuid.uuid4()), Quote=quote)
        answer: ActivationResp = stub(message, timeout=PATIENCE)
        return answer

    address = f"127.0.0.1:{server.mesh_port}"
    recordings = []
    with grpc.secure_channel(address, credentials) as channel:
        join(channel)
    for _ in range(_TIMES):
        with grpc.secure_channel(address, credentials) as channel:
            recordings.append(server.recorded(partial(join, channel))[0])
    return _common(recordings)


def _update(server: RecordedServer, witnesses: list[Witness]) -> Calls:
    until_served(server)

    def apply(client: Client, word: str) -> Reply:
        encoded = base64.b64encode(_manifest(word, witnesses)).decode()
        return client.post("/api/v2/update", {"manifest": encoded})

    recordings = []
    with server.client(user("alice")) as client:
        _require(apply(client, "first"))
    for number in range(_TIMES):
        until_cosigned(server)
        with server.client(user("alice")) as client:
            calls, reply = server.recorded(partial(apply, client, f"update {number}"))
            _require(reply)
            recordings.append(calls)
    return _common(recordings)


def _sent_note(client: Client) -> Reply:
    value = base64.b64encode(b"a note").decode()
    return client.post("/api/v2/secrets", {"secrets": {"note": {"key": value}}})


def _require(reply: Reply) -> None:
    assert reply.status == 200, reply.body

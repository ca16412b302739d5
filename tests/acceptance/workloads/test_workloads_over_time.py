"""What becomes of workloads, and of their listener, when the deployment around them changes."""

import base64
import json
import os
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from msgspec.structs import replace
from support.peers.joined import joined
from support.peers.workloads import WORKLOAD, Http2Wire, framed, grpcio, marble_root, request
from support.process.server import Server
from support.samples.deployment import user
from support.samples.recovery import ciphertexts_of, hand_in, holder, recoverable
from support.samples.updates import together

from keyhouse.attestation import Measurements, quote_binding, report_data
from keyhouse.server.net.grpc_status import GrpcStatus
from keyhouse_simulation import SimulatedPlatform
from keyhouse_simulation.certificates import issue_leaf, pck_extension
from keyhouse_simulation.machine import Machine
from keyhouse_simulation.parameters import Pck
from keyhouse_simulation.record import read_record

pytestmark = pytest.mark.acceptance


def delivered_root(server: Server) -> bytes:
    """Activate a workload on a new connection; return the marble root that it was given, DER."""
    with grpcio(server.mesh_port) as channel:
        ended = channel.call(request())
    assert ended.answer is not None, ended
    root = ended.answer.Parameters.Env["MARBLE_PREDEFINED_ROOT_CA"]
    return x509.load_pem_x509_certificate(root).public_bytes(Encoding.DER)


def activated(wire: Http2Wire) -> GrpcStatus:
    """Activate a workload on this connection."""
    return GrpcStatus(wire.call(framed(request().SerializeToString())).status)


def counted(server: Server, marble: str, value: int) -> int:
    """Activate the workload again and let it count; return the value before."""
    with server.client(joined(server, "app", marble)) as client:
        answer = client.post("/api/v2/monotonic-counter", {"name": "a", "value": value})
    before = answer.data["value"]
    assert isinstance(before, int)
    return before


def test_counters_are_kept_through_each_kind_of_update_and_a_recovery(tmp_path: Path) -> None:
    keys, marble = [holder("rk0")], str(uuid.uuid4())
    package = {"SignerID": "00" * 32, "ProductID": 1, "SecurityVersion": 1}
    role = {"ResourceType": "Packages", "ResourceNames": ["app"]}
    gated = json.loads(recoverable(keys, Config={"FeatureGates": ["MonotonicCounter"]}))
    gated["Packages"]["app"] = package
    gated["Roles"]["raise"] = {**role, "Actions": ["UpdateSecurityVersion"]}
    gated["Users"]["admin"]["Roles"].append("raise")
    raised = {"Packages": {"app": {"SecurityVersion": 2}}}
    newer = {**gated["Packages"], "app": {**package, "SecurityVersion": 2}}
    changed = gated | {"Packages": newer}
    with Server(tmp_path / "data") as server:
        with server.client() as client:
            shares = ciphertexts_of(client.set_manifest(json.dumps(gated).encode()))
        assert counted(server, marble, 5) == 0
        with server.client(user("admin")) as admin:
            for number, update in enumerate((raised, changed)):
                wrapped = base64.b64encode(json.dumps(update).encode()).decode()
                assert admin.post("/api/v2/update", {"manifest": wrapped}).status == 200
                assert counted(server, marble, 6 + number) == 5 + number

    (server.data / "sealed_key").unlink()
    share = keys[0].share(shares["rk0"])
    with server, server.client() as client:
        assert hand_in(client, share, keys[0].sign(share)).data["remaining"] == 0
        assert counted(server, marble, 1) == 7
        assert counted(server, str(uuid.uuid4()), 1) == 0


def test_the_listener_serves_the_root_of_the_state_after_a_full_update_and_after_a_recovery(
    tmp_path: Path,
) -> None:
    keys = [holder("rk0")]
    with Server(tmp_path / "data") as server:
        with server.client() as client:
            shares = ciphertexts_of(client.set_manifest(recoverable(keys)))
        first = marble_root(server.mesh_port)
        with Http2Wire(server.mesh_port) as kept, server.client(user("admin")) as admin:
            assert activated(kept.begin()) is GrpcStatus.OK
            changed = base64.b64encode(recoverable(keys, secrets=4)).decode()
            assert admin.post("/api/v2/update", {"manifest": changed}).status == 200
            second = marble_root(server.mesh_port)
            assert second != first
            assert delivered_root(server) == second
            assert activated(kept) is GrpcStatus.UNAVAILABLE  # its handshake has shown the first
            assert kept.goodbye() == 0

    (server.data / "sealed_key").unlink()
    share = keys[0].share(shares["rk0"])
    with server, Http2Wire(server.mesh_port) as kept, server.client() as client:
        temporary = marble_root(server.mesh_port)
        assert temporary not in {first, second}
        assert activated(kept.begin()) is GrpcStatus.FAILED_PRECONDITION
        assert hand_in(client, share, keys[0].sign(share)).data["remaining"] == 0
        assert marble_root(server.mesh_port) == second
        assert kept.goodbye() == 0  # it belongs to a root that is no more
        assert delivered_root(server) == second


def neighbour(machine: Machine) -> Machine:
    """Return another machine by the same vendor."""
    key, attestation_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    (vendor,) = machine.pck.issuer.get_attributes_for_oid(NameOID.COMMON_NAME)
    extension = pck_extension(Pck(ppid=os.urandom(16)))
    start = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=1)
    pck = issue_leaf(
        "Another PCK Certificate", key, (str(vendor.value), machine.pck_ca_key), start, extension
    )
    return replace(machine, pck_key=key, attestation_key=attestation_key, pck=pck)


def quote_on(machine: Machine) -> bytes:
    """Return the quote of a workload of the package ``app`` that runs there."""
    who = Measurements(
        unique_id=bytes(32), signer_id=b"\xab" * 32, product_id=7, security_version=3
    )
    bound = report_data(quote_binding(WORKLOAD.certificate))
    return SimulatedPlatform(machine).workload_quote(who, bound)


def test_a_workload_that_turns_up_on_another_machine_is_marked_and_warned_of(
    tmp_path: Path,
) -> None:
    limited = together(lambda raw: raw["Marbles"]["app"].update(MaxActivations=9))
    with Server(tmp_path / "data") as server:
        with server.client() as client:
            assert client.set_manifest(limited).status == 200
        here = read_record((server.data / "simulation" / "machine.json").read_bytes())
        there = neighbour(here)
        marble = str(uuid.uuid4())
        with grpcio(server.mesh_port) as channel:
            for machine in (here, here, there, there, here):
                ended = channel.call(request(UUID=marble, Quote=quote_on(machine)))
                assert ended.code is grpc.StatusCode.OK, ended
            assert channel.call(request(Quote=quote_on(there))).code is grpc.StatusCode.OK
        with server.client(user("alice")) as alice:
            listed = alice.get("/api/v2/activations").data["activations"]

    platforms = [each["platform"] for each in listed]
    home, away = platforms[0], platforms[2]
    assert home != away
    assert platforms == [home, home, away, away, home, away]
    moved = [each.get("movedFrom", "") for each in listed]
    assert moved == ["", "", home, "", away, ""]  # the last one is another workload
    warning = "a workload runs on another platform than before"
    assert server.logged().count(warning) == 2

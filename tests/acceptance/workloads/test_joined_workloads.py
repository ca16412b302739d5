"""Workloads that joined over gRPC, count over HTTPS, and are seen by operators."""

import base64
import json
import urllib.request
import uuid
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import grpc
import pytest
from cryptography import x509
from support.peers.joined import joined
from support.peers.workloads import grpcio, request
from support.process.server import Client, Reply, Server, free_port
from support.samples.activation import marble_manifest
from support.samples.deployment import User, user

pytestmark = pytest.mark.acceptance

DAYS: Final = 30
MARBLES: Final = {
    "web": {
        "Package": "app",
        "Parameters": {"Env": {"KEY": "{{ hex .Secrets.own }}"}},
    },
    "limited": {"Package": "app", "MaxActivations": 2},
}
SECRETS: Final = {
    "own": {"Type": "symmetric-key", "Size": 256},
    "served": {"Type": "cert-ecdsa", "Size": 256, "Shared": True},
}
READER: Final = {
    "ResourceType": "Secrets",
    "ResourceNames": ["served"],
    "Actions": ["ReadSecret"],
}


def manifest(*gates: str) -> bytes:
    admin = json.loads(marble_manifest())["Users"]["admin"]
    return marble_manifest(
        MARBLES,
        Secrets=SECRETS,
        Roles={"reader": READER},
        Users={"admin": {**admin, "Roles": [*admin["Roles"], "reader"]}},
        Config={"FeatureGates": list(gates)},
    )


@pytest.fixture(name="site", scope="module")
def running_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, int]]:
    metrics = free_port()
    arguments = ["--metrics-addr", f"127.0.0.1:{metrics}", "--marble-certificate-days", str(DAYS)]
    with Server(tmp_path_factory.mktemp("site") / "data", arguments=arguments) as server:
        with server.client() as client:
            assert client.set_manifest(manifest("MonotonicCounter")).status == 200
        yield server, metrics


def count(client: Client, body: Any) -> Reply:
    return client.post("/api/v2/monotonic-counter", body)


def values(server: Server, workload: User, *counts: tuple[str, int]) -> list[int]:
    """Return what each call answered."""
    with server.client(workload) as client:
        return [count(client, {"name": n, "value": v}).data["value"] for n, v in counts]


def raise_version(client: Client) -> Reply:
    raw = json.dumps({"Packages": {"app": {"SecurityVersion": 2}}}).encode()
    return client.post("/api/v2/update", {"manifest": base64.b64encode(raw).decode()})


def test_a_workload_counts_for_itself(site: tuple[Server, int]) -> None:
    server, _ = site
    marble = str(uuid.uuid4())
    workload, other = joined(server, marble=marble), joined(server)

    counts = (("a", 5), ("a", 3), ("", 2**64 - 1), ("a", 6), ("", 0))
    assert values(server, workload, *counts) == [0, 5, 0, 5, 2**64 - 1]
    assert values(server, other, ("a", 0)) == [0]
    assert values(server, joined(server, marble=marble), ("a", 0)) == [6]


def test_the_days_of_certificates_are_as_the_command_line_says(site: tuple[Server, int]) -> None:
    leaf, *_ = x509.load_pem_x509_certificates(joined(site[0]).pem)
    assert leaf.not_valid_after_utc - leaf.not_valid_before_utc == timedelta(days=DAYS)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"name": "n" * 257, "value": 1}, "name"),
        ({"name": "ü" * 129, "value": 1}, "name"),
        ({"name": "n", "value": -1}, "value"),
        ({"name": "n", "value": 2**64}, "value"),
        ({"name": "n", "value": "1"}, "value"),
        ({"name": 1}, "name"),
    ],
)
def test_a_count_that_cannot_be_is_refused(site: tuple[Server, int], body: Any, field: str) -> None:
    server, _ = site
    with server.client(joined(server)) as client:
        refused = count(client, body)
        assert refused.status == 400
        assert refused.envelope["status"] == "fail"
        assert field in refused.envelope["data"]
        assert count(client, {"name": "ü" * 128, "value": 1}).data == {"value": 0}


def test_only_workloads_count(site: tuple[Server, int]) -> None:
    server, _ = site
    with server.client(user("admin")) as client:
        served = client.get("/api/v2/secrets?s=served").data["secrets"]["served"]
        assert count(client, {}).status == 401
    # A certificate of the same authority that no activation has made.
    pem = "-----BEGIN {0}-----\n{1}\n-----END {0}-----\n".format
    certificate = pem("CERTIFICATE", served["cert"]).encode()
    secret = User(b"", certificate, pem("PRIVATE KEY", served["private"]).encode())
    with server.client(secret) as client:
        assert count(client, {"name": "a", "value": 1}).status == 401


def test_operators_read_who_joined(site: tuple[Server, int]) -> None:
    server, metrics = site
    marble = str(uuid.uuid4())
    joined(server, "limited", marble)  # durable before the answer, and what waited with it
    with grpcio(server.mesh_port) as channel:
        assert channel.call(request(MarbleType="no")).code is grpc.StatusCode.PERMISSION_DENIED
    with server.client(user("admin")) as client:
        page = client.get("/api/v2/activations").data
        assert page["next"] == page["first"] + len(page["activations"])
        mine = next(entry for entry in page["activations"] if entry["uuid"] == marble)
        assert mine["time"].endswith("Z")
        assert mine == {
            "time": mine["time"],
            "marbleType": "limited",
            "uuid": marble,
            "names": ["web"],
            "counted": True,
        }
        newest = client.get(f"/api/v2/activations?from={page['next'] - 1}").data
        assert newest["activations"] == page["activations"][-1:]
        empty = {"activations": [], "first": page["next"], "next": page["next"]}
        assert client.get(f"/api/v2/activations?from={page['next']}").data == empty
        numbers = ("9" * 30, "0" * 20 + "9" * 30, "0" * 6000)  # too large, and too long to be read
        for bad in ("from=-1", "from=x", "from=1&from=2", "from=", *map("from={}".format, numbers)):
            refused = client.get(f"/api/v2/activations?{bad}")
            assert (refused.status, list(refused.envelope["data"])) == (400, ["from"])

    def read(path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{metrics}{path}") as answer:
            content: bytes = answer.read()
            return content.decode()

    lines = read("/metrics").splitlines()
    assert 'coordinator_marble_activations_success_total{type="limited"} 1.0' in lines
    assert 'coordinator_marble_activations_total{type="unknown"} 1.0' in lines
    assert 'keyhouse_activations_refused_total{code="forbidden"} 1.0' in lines
    assert marble not in "\n".join(lines)
    events = json.loads(read("/events"))
    activation = {"marbleType": "limited", "uuid": marble, "quote": None}
    assert activation in [event.get("activation") for event in events]
    (refusal,) = [event["refusal"] for event in events if "refusal" in event]
    assert refusal["marbleType"] == "no"
    assert refusal["code"] == "forbidden"
    assert 'no marble type "no"' in refusal["reason"]


def test_limits_and_counters_survive_kills_and_end_with_the_marble_root(tmp_path: Path) -> None:
    marble = str(uuid.uuid4())
    verbose = ["--log-level", "debug"]
    with Server(tmp_path / "data", arguments=verbose) as server:
        with server.client() as client:
            assert client.set_manifest(manifest("MonotonicCounter")).status == 200
        workload = joined(server, "limited", marble)
        assert values(server, workload, ("a", 7)) == [0]
        server.kill()
    with Server(tmp_path / "data", arguments=verbose) as server:
        assert values(server, workload, ("a", 8)) == [7]
        again = joined(server, "limited", marble)
        with grpcio(server.mesh_port) as channel:
            over = channel.call(request(MarbleType="limited", UUID=marble))
        assert over.code is grpc.StatusCode.PERMISSION_DENIED
        assert "MaxActivations" in over.message
        kept = server.client(again)
        with kept, server.client(user("admin")) as admin:
            assert count(kept, {"name": "a"}).data == {"value": 8}
            assert raise_version(admin).status == 200
            # Also on the kept connection: the update has ended all certificates before it.
            assert count(kept, {"name": "a", "value": 9}).status == 401
        assert values(server, joined(server, "web", marble), ("a", 0)) == [0]  # another type
        logged = server.logged()
    assert marble in logged
    for canary in (workload, again):
        secret = base64.b64decode(b"".join(canary.key_pem.splitlines()[1:-1]))
        scalar = secret[36:68]  # of a P-256 key in PKCS #8
        for shape in (secret, scalar):
            assert shape.hex() not in logged.lower()
            assert base64.b64encode(shape).decode() not in logged
        assert canary.key_pem.splitlines()[1].decode() not in logged


def test_without_the_gate_nobody_counts(tmp_path: Path) -> None:
    with Server(tmp_path / "data") as server:
        with server.client() as client:
            assert client.set_manifest(manifest()).status == 200
        with server.client(joined(server)) as client:
            refused = count(client, {"name": "a", "value": 1})
        assert refused.status == 403
        assert "MonotonicCounter" in refused.envelope["message"]

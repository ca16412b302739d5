"""Every method that knows a workload by its certificate refuses the workload after a revocation.

The lists come from the service description and from the table of routes. So a new method or route
without a row here fails.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.living.channel import RunningWorkload, refusal
from support.process.server import Server
from support.samples.deployment import User, manifest, user

from keyhouse.server.client_api import ROUTES, Caller
from keyhouse.wire import workload_pb2 as wire

pytestmark = pytest.mark.acceptance

METHODS: dict[str, Any] = {
    "Challenge": wire.ChallengeRequest(),
    "Renew": wire.RenewRequest(),
    "Fetch": wire.FetchRequest(),
    "Watch": wire.WatchRequest(once=True),
}

ROUTE_BODIES: dict[tuple[str, str], dict[str, Any]] = {
    ("POST", "/api/v2/monotonic-counter"): {"name": "orders", "value": 1},
}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A coordinator with a renewable type and counters, and ``writer``, who may revoke."""
    raw: dict[str, Any] = json.loads(manifest(FeatureGates=["MonotonicCounter"]))
    raw["Packages"]["app"] = {"SignerID": "00" * 32, "ProductID": 1, "SecurityVersion": 1}
    raw["Marbles"]["app"] = {"Package": "app", "Renewal": {}}
    raw["Roles"]["guard"] = {
        "ResourceType": "Marbles",
        "ResourceNames": ["app"],
        "Actions": ["RevokeWorkload"],
    }
    raw["Users"]["writer"]["Roles"].append("guard")
    with Server(tmp_path / "data") as server:
        with server.client() as client:
            assert client.set_manifest(json.dumps(raw).encode()).status == 200
        yield server


def refused_calls(server: Server, workload: RunningWorkload) -> dict[str, str]:
    """Return the code of the refusal of each method and route; empty: the call is permitted."""
    codes = dict[str, str]()

    def note(name: str, call: Callable[[], Any]) -> None:
        try:
            codes[name] = refusal(call).code
        except AssertionError:
            codes[name] = ""

    for name, message in METHODS.items():
        note(name, lambda: workload.call(name, message))  # noqa: B023 called at once
    pair = workload.pair
    with server.client(User(pair.certificate, pair.pem, pair.key_pem)) as client:
        for (_, path), body in ROUTE_BODIES.items():
            reply = client.post(path, body)
            message = reply.envelope.get("message") or ""
            codes[path] = "" if reply.status == 200 else _code(reply.status, message)
    return codes


def _code(status: int, message: str) -> str:
    """Return the code of a refusal over HTTP, which has a status and a text instead."""
    if status == 403 and " is revoked" in message:
        return "revoked"
    if status == 409 and "before its renewal" in message:
        return "renew-first"
    return f"{status} {message}"


def test_each_method_and_route_has_a_row() -> None:
    service = wire.DESCRIPTOR.services_by_name["Workload"]
    assert set(METHODS) == {method.name for method in service.methods}
    routes = {(each.method, each.path) for each in ROUTES if each.caller is Caller.MARBLE}
    assert set(ROUTE_BODIES) == routes


def revoke(server: Server, body: dict[str, str]) -> None:
    with server.client(user("writer")) as client:
        assert client.post("/api/v2/revocations", body).status == 200


def test_every_method_refuses_a_revoked_workload(server: Server) -> None:
    workload, other = RunningWorkload(server.mesh_port), RunningWorkload(server.mesh_port)
    workload.renew()
    other.renew()
    everything = {*METHODS, *(path for _, path in ROUTE_BODIES)}
    # A Renew without a nonce is refused in any case: with the code of the first failed check.
    permitted = {**dict.fromkeys(everything, ""), "Renew": "nonce"}
    assert refused_calls(server, workload) == permitted
    revoke(server, {"scope": "workload", "marbleType": "app", "uuid": workload.uuid})
    assert refused_calls(server, workload) == dict.fromkeys(everything, "revoked")
    assert refused_calls(server, other) == permitted
    server.kill()
    server.start()
    assert refused_calls(server, workload) == dict.fromkeys(everything, "revoked")


def test_every_read_refuses_a_workload_of_a_revoked_type_until_its_renewal(server: Server) -> None:
    workload = RunningWorkload(server.mesh_port)
    workload.renew()
    permitted = refused_calls(server, workload)
    revoke(server, {"scope": "type", "marbleType": "app"})
    refused = dict.fromkeys(permitted, "renew-first") | {"Challenge": "", "Renew": "nonce"}
    assert refused_calls(server, workload) == refused
    workload.renew()
    assert refused_calls(server, workload) == permitted

"""A fault at each step of a renewal: the workload continues with the same key, and never twice."""

import asyncio
import itertools
import ssl
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

import pytest
from support.living.coordinators import begin
from support.living.relay import FaultyRelay
from support.living.supervised import living_type
from support.process.server import Server, listens

from keyhouse.attestation import Platform, PlatformMissingError
from keyhouse.launcher.activation import Request, activate
from keyhouse.launcher.credentials import make_credentials, read_names
from keyhouse.launcher.errors import CoordinatorNotTrustedError
from keyhouse.launcher.supervise import channel
from keyhouse.launcher.supervise.certificates import WorkloadCertificates
from keyhouse.launcher.supervise.channel_connection import SupervisedWorkload
from keyhouse.launcher.supervise.launch import identity_of
from keyhouse.launcher.supervise.schedule import ChannelError
from keyhouse.launcher.trust import has_lineage
from keyhouse.wire import workload_pb2 as wire
from keyhouse.wire.address import Address
from keyhouse_simulation import SimulatedPlatform, make_machine

pytestmark = pytest.mark.acceptance

MACHINE = make_machine(datetime.now(UTC))
NAMES = read_names("localhost")
ROOT = "MARBLE_PREDEFINED_COORDINATOR_ROOT_CA"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A coordinator with a renewable type."""
    with Server(tmp_path / "living") as server:
        begin(server, living_type())
        yield server


class Workload:
    """The launcher's side of a workload, without a program."""

    def __init__(self, port: int) -> None:
        self._runner = asyncio.Runner()
        who = uuid.uuid4()
        address, own = Address("127.0.0.1", port), make_credentials(NAMES)
        request = Request(address, own, b"", kind="app", who=who)
        delivered = self._runner.run(activate(request, None, 30))
        first = identity_of(delivered)
        assert has_lineage(first.own.certificate)
        root = ssl.PEM_cert_to_DER_cert(delivered.env[ROOT].reveal().decode())
        self.supervised = SupervisedWorkload(address, root, "app", who)
        self.seen = channel.Seen()
        self.held = WorkloadCertificates(first, lambda: make_credentials(NAMES), 0)

    def renew(self, platform: Platform | None = None) -> None:
        held = self.held
        fresh = held.key_in_flight()
        answer = channel.renew(self.supervised, held.newest.own, fresh, platform, self.seen)
        held.store(self._runner.run(answer))

    def fetch(self) -> wire.FetchResponse:
        async def fetch() -> wire.FetchResponse:
            async with channel.reading(self.supervised, self.held.newest) as connection:
                return await channel.fetch(connection, wire.Version(), self.seen)

        return self._runner.run(fetch())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        async def close() -> None:
            for _ in range(10):  # closed connections need some turns of the loop
                await asyncio.sleep(0)

        self._runner.run(close())
        self._runner.close()


def activations(server: Server) -> int:
    return server.logged().count("a workload was activated")


def refusal_of(call: Callable[[], object]) -> str:
    try:
        call()
    except ChannelError as error:
        return error.refusal
    return ""


def faults_at_each_step(server: Server, fault: Callable[[], object]) -> int:
    """Fail at each step of a renewal. Return the number of steps."""
    with FaultyRelay(server.mesh_port) as relay, Workload(relay.port) as workload:
        for step in itertools.count(1):
            key = workload.held.key_in_flight().request
            relay.fault, relay.fault_at = fault, step
            refusal = refusal_of(workload.renew)
            steps = relay.steps
            relay.settle()
            if refusal:
                assert refusal == "away"
                assert workload.held.key_in_flight().request == key
                workload.renew()
            assert workload.fetch().files
            if not refusal:
                return steps
    raise AssertionError


def test_a_connection_that_ends_at_any_step_leaves_one_lineage(server: Server) -> None:
    assert faults_at_each_step(server, lambda: None) >= 6
    assert activations(server) == 1


def test_a_coordinator_killed_at_any_step_continues_the_lineage(server: Server) -> None:
    def restart() -> None:
        server.kill()
        server.start()
        while not listens(server.mesh_port):
            pass

    assert faults_at_each_step(server, restart) >= 6
    assert activations(server) == 1


class BrokenPlatform(SimulatedPlatform):
    """A machine whose device makes no quote."""

    def quote(self, report_data: bytes) -> bytes:
        del report_data
        raise PlatformMissingError("the device /dev/broken makes no quote")


def test_a_quote_that_cannot_be_made_keeps_the_key_in_flight(server: Server) -> None:
    with Workload(server.mesh_port) as workload:
        key = workload.held.key_in_flight().request
        with pytest.raises(PlatformMissingError, match="/dev/broken"):
            workload.renew(BrokenPlatform(MACHINE))
        assert workload.held.key_in_flight().request == key
        workload.renew()
        assert workload.fetch().files


def test_another_deployment_gets_no_evidence(server: Server, tmp_path: Path) -> None:
    with Server(tmp_path / "other") as other:
        begin(other, living_type())
        with Workload(server.mesh_port) as workload:
            workload.renew()
            moved = workload.supervised._replace(address=Address("127.0.0.1", other.mesh_port))
            genuine, workload.supervised, workload.seen = workload.supervised, moved, channel.Seen()
            assert refusal_of(workload.fetch) == "renew-first"
            assert refusal_of(workload.renew) == "activate-again"
            # The deployment has to prove its root before the platform makes a quote.
            workload.supervised = genuine._replace(root=root_of(other))
            with pytest.raises(CoordinatorNotTrustedError):
                workload.renew(BrokenPlatform(MACHINE))


def root_of(server: Server) -> bytes:
    with server.client() as client:
        pem = client.get("/api/v2/quote").data["cert"]
    return ssl.PEM_cert_to_DER_cert(pem[pem.rindex("-----BEGIN") :])

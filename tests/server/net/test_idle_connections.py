"""Connections that wait for their client for long: how many stay depends on the platform."""

import contextlib
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from support.peers.https import Client, running, trusting_context
from support.samples.deployment import NOW, running_engine

from keyhouse.server.net.limits import (
    CONNECTIONS,
    IDLE,
    IDLE_WORKLOADS,
    WATCHES,
    WORKLOADS,
    Limits,
    WorkloadLimits,
    limits_on,
)
from keyhouse.server.process.serving import serving
from keyhouse.server.services.quote_checks import QuoteChecks
from keyhouse_simulation import SimulatedPlatform, make_machine

PRESENT = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=NOW)
WAIT = b"POST /wait HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"


@pytest.fixture(name="trust", scope="module")
def make_context() -> ssl.SSLContext:
    return trusting_context()


class OnHost(SimulatedPlatform):
    """A platform without a library OS."""

    @property
    def is_library_os(self) -> bool:
        return False


class InLibraryOs(SimulatedPlatform):
    """A platform that is seen from within a library OS."""

    @property
    def is_library_os(self) -> bool:
        return True


def test_connections_that_wait_longest_are_closed_while_too_many_wait(
    trust: ssl.SSLContext,
) -> None:
    """Clients whose request is worked on are not among them, whatever their number."""
    limits = Limits(idle_connections=2, sweep_interval=0.02)
    with running(limits) as server, contextlib.ExitStack() as stack:
        busy = [stack.enter_context(Client(server.port, trust)) for _ in range(3)]
        for client in busy:
            client.send(WAIT)
        assert server.do_until(lambda: len(server.probe.bodies) == 3)
        idle = [stack.enter_context(Client(server.port, trust)) for _ in range(5)]
        assert server.do_until(lambda: len(server.listener.connections) == 5)
        assert server.do(lambda: server.listener.turned_away) == 3
        assert [client.rest() for client in idle[:3]] == [b""] * 3
        server.open_gate()
        assert [client.answer()[0] for client in busy] == [200] * 3


def test_connections_that_have_waited_for_a_short_time_may_be_more(trust: ssl.SSLContext) -> None:
    """As when many workloads start at once: only the next sweep but one would close any."""
    limits = Limits(idle_connections=1, sweep_interval=1000.0)
    with running(limits) as server, contextlib.ExitStack() as stack:
        clients = [stack.enter_context(Client(server.port, trust)) for _ in range(4)]
        shared = server.listener.connections
        assert server.do(lambda: shared.close_idle(shared.now)) == 0
        assert [client.get("/status")[0] for client in clients] == [200] * 4
        assert server.do(lambda: shared.close_idle(float("inf"))) == 3


def test_other_platforms_keep_as_many_idle_connections_as_there_may_be() -> None:
    for limits in limits_on(library_os=False):
        assert limits.idle_connections == limits.connections == type(limits)().connections


@pytest.mark.parametrize(
    ("platform", "expected"),
    [
        (OnHost, (Limits(), WorkloadLimits())),
        (
            InLibraryOs,
            (
                Limits(connections=CONNECTIONS, idle_connections=IDLE),
                WorkloadLimits(
                    connections=WORKLOADS, idle_connections=IDLE_WORKLOADS, watches=WATCHES
                ),
            ),
        ),
    ],
    ids=["host", "library OS"],
)
async def test_limits_of_both_listeners_come_from_the_platform(
    tmp_path: Path,
    platform: type[SimulatedPlatform],
    expected: tuple[Limits, WorkloadLimits],
) -> None:
    here = platform(make_machine(PRESENT), now=lambda: PRESENT)
    checks = QuoteChecks(here.root_ca, lambda _: here.collateral, lambda: PRESENT)
    async with (
        running_engine(tmp_path / "state") as engine,
        serving(engine, here, checks, ("127.0.0.1", 0)) as listeners,
    ):
        found = listeners.client_api.limits, listeners.workload_api.limits
        assert found == expected


def test_a_wait_in_a_library_os_costs_at_most_four_times_as_much_beside_idle_connections() -> None:
    """By what a connection costs there, measured: 0.285 µs of each wait; a status takes 50 µs."""
    assert 50 + 0.285 * (IDLE + IDLE_WORKLOADS) < 4 * 50
    assert 50 + 0.285 * (CONNECTIONS + WORKLOADS) < 1000

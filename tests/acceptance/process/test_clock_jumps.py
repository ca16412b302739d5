"""A real coordinator on a machine whose clock jumps: nothing of that is kept."""

import json
import urllib.request
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc
import pytest
from cryptography import x509
from support.peers.workloads import WORKLOAD, grpcio, request
from support.process.fake_clock import OtherClock
from support.process.server import PATIENCE, Server, free_port
from support.samples.deployment import manifest, user
from support.samples.recovery import ciphertexts_of, hand_in, holder, recoverable
from support.samples.updates import together

from keyhouse.attestation import Measurements, quote_binding, report_data
from keyhouse_simulation import SimulatedPlatform
from keyhouse_simulation.record import read_record

pytestmark = pytest.mark.acceptance

TWELVE_YEARS = timedelta(days=12 * 365)
NEAR = timedelta(hours=3)  # the longest that a jump of all clocks may count for, and an hour
NOT_FOLLOWED = "is more than a year ahead of the known time: it is not followed"


def begins(server: Server) -> datetime:
    """Activate a workload with a quote; return when its certificate begins, UTC."""
    machine = read_record((server.data / "simulation" / "machine.json").read_bytes())
    who = Measurements(
        unique_id=bytes(32), signer_id=b"\xab" * 32, product_id=7, security_version=3
    )
    bound = report_data(quote_binding(WORKLOAD.certificate))
    quote = SimulatedPlatform(machine).workload_quote(who, bound)
    with grpcio(server.mesh_port) as channel:
        ended = channel.call(request(UUID=str(uuid.uuid4()), Quote=quote))
    assert ended.code is grpc.StatusCode.OK, ended
    assert ended.answer is not None
    chain = ended.answer.Parameters.Env["MARBLE_PREDEFINED_MARBLE_CERTIFICATE_CHAIN"]
    return x509.load_pem_x509_certificate(chain).not_valid_before_utc


def words(server: Server, *, code: int = 1) -> str:
    """Start a coordinator that ends by itself; return what it said."""
    with server.log.open("wb") as log:
        process = server._start(log)
    try:
        assert process.wait(PATIENCE) == code
    finally:
        process.kill()
    return server.logged()


def is_now(moment: datetime) -> bool:
    return abs(moment - datetime.now(UTC)) < NEAR


def journalled(server: Server) -> list[datetime]:
    """Return the times of the update log, oldest first."""
    with server.client() as client:
        log = client.get("/api/v2/update").data["updateLog"]
    return [datetime.fromisoformat(json.loads(line)["time"]) for line in log]


def metrics(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE) as answer:
        text: str = answer.read().decode()
    return text


@pytest.mark.parametrize("all_clocks", [False, True], ids=["time of day", "all clocks"])
def test_clock_that_jumps_while_it_runs_leaves_no_trace(
    tmp_path: Path, *, all_clocks: bool
) -> None:
    clock = OtherClock(tmp_path, all_clocks=all_clocks)
    scraped = free_port()
    server = clock.server(tmp_path / "data", "--metrics-addr", f"127.0.0.1:{scraped}")
    with server:
        with server.client() as client:
            assert client.set_manifest(together()).status == 200
        assert "keyhouse_clock_followed 1.0" in metrics(scraped)
        clock.set_ahead(TWELVE_YEARS)
        assert is_now(begins(server))
        with server.client(user("writer")) as writer:
            assert writer.upload({"note": b"noted"}).status == 200
        found = metrics(scraped)
        assert "keyhouse_clock_followed 0.0" in found
        assert "keyhouse_clock_jumps_total 1.0" in found
        if not all_clocks:  # one that goes back stops the timers of the process itself
            clock.set_right()
            assert is_now(begins(server))
            assert "keyhouse_clock_followed 1.0" in metrics(scraped)
        assert server.stop() == 0
    assert server.logged().count(NOT_FOLLOWED) == 1

    clock.set_right()
    with server:
        assert is_now(begins(server))
        assert all(map(is_now, journalled(server)))
        assert len(journalled(server)) >= 2


def test_no_deployment_begins_by_a_clock_years_ahead_until_it_is_set_right(tmp_path: Path) -> None:
    clock = OtherClock(tmp_path)
    clock.set_ahead(TWELVE_YEARS)
    server = clock.server(tmp_path / "data")
    said = words(server)
    assert "error: the clock of this machine is more than a year ahead of this version" in said
    assert "hint: set the clock; if the clock is right, start with --confirm-clock" in said
    assert not server.data.exists()
    checked = words(clock.server(tmp_path / "data", "--check-config"))
    assert "error: --confirm-clock: the clock of this machine" in checked

    clock.set_right()
    with server:
        with server.client() as client:
            assert client.set_manifest(together()).status == 200
        assert is_now(begins(server))


def test_confirmed_clock_is_followed_and_its_later_jumps_are_not(tmp_path: Path) -> None:
    clock, data = OtherClock(tmp_path), tmp_path / "data"
    with clock.server(data) as server, server.client() as client:
        assert client.set_manifest(together()).status == 200

    clock.set_ahead(TWELVE_YEARS)
    refused = words(clock.server(data))
    assert "error: the clock of this machine is more than a year ahead of the newest" in refused
    assert "--confirm-clock" in refused
    clock.set_right()
    with clock.server(data) as server:
        assert is_now(begins(server))

    clock.set_ahead(TWELVE_YEARS)
    with clock.server(data, "--confirm-clock") as server:
        assert is_now(begins(server) - TWELVE_YEARS)
        clock.set_ahead(2 * TWELVE_YEARS)
        assert is_now(begins(server) - TWELVE_YEARS)
        assert NOT_FOLLOWED in server.logged()

    clock.set_ahead(TWELVE_YEARS)
    with clock.server(data) as server:  # it was to be confirmed once
        assert is_now(begins(server) - TWELVE_YEARS)


def test_recovery_mode_waits_for_a_clock_that_is_right(tmp_path: Path) -> None:
    clock, keys = OtherClock(tmp_path), [holder("rk0")]
    server = clock.server(tmp_path / "data")
    with server, server.client() as client:
        shares = ciphertexts_of(client.set_manifest(recoverable(keys)))
    (server.data / "sealed_key").unlink()
    share = keys[0].share(shares["rk0"])

    bundles = {path: path.read_bytes() for path in server.data.glob("simulation/collateral*")}
    clock.set_ahead(TWELVE_YEARS)
    with server, server.client() as client:
        refused = client.set_manifest(manifest())
        assert refused.status == 503
        assert "--confirm-clock" in refused.envelope["message"]
        refused = hand_in(client, share, keys[0].sign(share))
        assert refused.status != 200
        assert "--confirm-clock" in refused.envelope["message"]
        clock.set_right()
        for path, raw in bundles.items():  # the simulated vendor issued others in the future
            path.write_bytes(raw)
        assert hand_in(client, share, keys[0].sign(share)).data["remaining"] == 0
    with server:
        assert all(map(is_now, journalled(server)))

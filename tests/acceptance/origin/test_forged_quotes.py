"""A platform that forges quotes. The design does not exclude it; measured settings do.

A machine of the same vendor stands for the forging platform: the host has quotes of it over any
report data, and they say that the code is genuine. With them the host makes up the whole line.
"""

from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pytest
from support.host.client import accepts
from support.host.enclave import code_of_quotes
from support.host.invented_state import InventedState, invent, with_line
from support.peers.sdk import trust_in_server
from support.process.server import Reply, Server
from support.samples.recovery import hand_in, holder, recoverable

from keyhouse.attestation import Collateral, TcbStatus, Verifier
from keyhouse.attestation.platforms.find import SimulatedTcb
from keyhouse.client import verify_coordinator
from keyhouse.manifest import fingerprint
from keyhouse_simulation import COORDINATOR, add_machine, open_platform

pytestmark = pytest.mark.acceptance

GOOD = holder("good")
EXPECTED = recoverable([GOOD])
CLAIM = ("--claim-fingerprint", fingerprint(EXPECTED))


class Forged(NamedTuple):
    """A state whose line is made of forged quotes, on a genuine machine that has not opened it."""

    data: Path
    state: InventedState
    platforms: tuple[str, ...]  # PPID of the genuine machine, and of the one that forges

    def outdated(self) -> None:
        """Let the vendor call its platforms outdated from now on."""
        tcb = SimulatedTcb(status=TcbStatus.OUT_OF_DATE)
        open_platform(self.data / "simulation", tcb=tcb)

    def recovered(self, server: Server) -> Reply:
        """Have the holder recover it, who cannot notice anything."""
        with server.client() as client:
            share = GOOD.share(self.state.running.recovery.ciphertexts[GOOD.name])
            return hand_in(client, share, GOOD.sign(share))


@pytest.fixture(name="forged")
def _forged(tmp_path: Path) -> Forged:
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    forging = add_machine(tmp_path / "forging", data / "simulation", coordinator=COORDINATOR)
    bundle = (data / "simulation" / "collateral.json").read_bytes()
    code = code_of_quotes(COORDINATOR)
    state = with_line(invent(EXPECTED), [EXPECTED], code, forging.quote, bundle)
    state.write_directory(data)
    now, platforms = datetime.now(UTC), list[str]()
    for each in (open_platform(data / "simulation"), forging):
        verdict = Verifier(each.root_ca).verify(each.quote(bytes(64)), each.collateral, now)
        platforms.append(verdict.ppid.hex())
    return Forged(data, state, tuple(platforms))


@pytest.mark.parametrize("arguments", [(), CLAIM], ids=["no claim", "claimed"])
def test_every_client_accepts_a_root_of_a_platform_that_forges_quotes(
    forged: Forged, arguments: tuple[str, ...]
) -> None:
    """As stated: who forges quotes of an accepted platform makes up a line."""
    with Server(forged.data, arguments=arguments) as server:
        assert forged.recovered(server).status == 200
        assert accepts(server, EXPECTED, forged.state.root_der)
        trust = trust_in_server(server)
        assert isinstance(trust.collateral, Collateral)
        found = verify_coordinator(
            f"127.0.0.1:{server.port}",
            expected=trust.expected,
            root_ca_der=trust.root_ca_der,
            collateral=trust.collateral,
            first_manifest=EXPECTED,
            manifests="all",
        )
        assert found.root_der == forged.state.root_der


def test_a_list_of_platforms_excludes_one_that_forges_quotes(forged: Forged) -> None:
    genuine, forging = forged.platforms
    with Server(forged.data, arguments=("--origin-platforms", genuine)) as server:
        refused = forged.recovered(server)
    assert refused.status == 400
    assert f"the platform {forging} is not in --origin-platforms" in refused.body.decode()
    listed = ("--origin-platforms", f"{genuine},{forging}")
    with Server(forged.data, arguments=listed) as server:
        assert forged.recovered(server).status == 200


def test_a_platform_that_is_outdated_by_now_counts_as_what_it_was(forged: Forged) -> None:
    """As stated: new microcode is the usual reason for a recovery."""
    forged.outdated()
    with Server(forged.data) as server:
        assert forged.recovered(server).status == 200


def test_with_current_a_platform_that_is_outdated_by_now_is_refused(forged: Forged) -> None:
    forged.outdated()
    with Server(forged.data, arguments=("--origin-tcb", "current,UpToDate")) as server:
        refused = forged.recovered(server)
    assert refused.status == 400
    assert "OutOfDate" in refused.body.decode()

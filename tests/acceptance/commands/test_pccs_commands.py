"""Commands verify a real coordinator with collateral that they fetch from a PCCS, and keep."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from support.process.command import Ended, run
from support.process.server import Server

from keyhouse.attestation import read_collateral
from keyhouse_simulation.pccs import PccsFault, PccsServer, ServedCollateral

pytestmark = pytest.mark.acceptance


class Site(NamedTuple):
    """A coordinator, and a PCCS (not started) that knows its simulated machine."""

    server: Server
    pccs: PccsServer
    ca: str
    cache: Path

    def status(self, *words: str, root: bool = True, url: str = "") -> Ended:
        """Return how `keyhouse status` ended, with the PCCS as its source."""
        simulation = self.server.data / "simulation"
        trust = ("--simulation-root", str(simulation / "root.pem")) if root else ()
        return run(
            "status",
            f"127.0.0.1:{self.server.port}",
            "--attestation",
            str(simulation / "attestation.json"),
            "--pccs",
            url or self.pccs.url,
            "--pccs-ca",
            self.ca,
            *trust,
            *words,
            env={"XDG_CACHE_HOME": str(self.cache)},
        )


@pytest.fixture(scope="module")
def coordinator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("pccs") / "data") as server:
        yield server


@pytest.fixture
def site(coordinator: Server, tmp_path: Path) -> Site:
    bundle = (coordinator.data / "simulation" / "collateral.json").read_bytes()
    pccs = PccsServer([ServedCollateral(read_collateral(bundle))])
    ca = tmp_path / "ca.pem"
    ca.write_bytes(pccs.ca_pem)
    return Site(coordinator, pccs, str(ca), tmp_path / "cache")


def test_what_was_fetched_once_serves_while_the_pccs_is_down(site: Site) -> None:
    with site.pccs:
        first = site.status()
        assert first.code == 0, first.err
        assert len(site.pccs.asked) == 4
        assert site.status().code == 0
        assert len(site.pccs.asked) == 4
    (kept,) = (site.cache / "keyhouse" / "collateral").iterdir()
    down = site.status()
    assert (down.code, down.err) == (0, "")
    bundle = json.loads(kept.read_bytes())
    kept.write_text(json.dumps(bundle | {"seen": bundle["seen"] - 2 * 86_400}))
    due = site.status()
    assert due.code == 0
    assert due.err.startswith("warning: ")
    assert "sgx-511151115111-platform is kept" in due.err


def test_without_collateral_the_quote_is_not_judged_and_the_exit_code_says_so(site: Site) -> None:
    site.pccs.faults = {PccsFault.NOT_FOUND: 1.0}
    with site.pccs:
        ended = site.status()
    assert (ended.code, ended.out) == (3, "")
    assert "sgx-511151115111-platform" in ended.err
    assert "certification/v4/" in ended.err
    assert not site.cache.exists()


def test_a_coordinator_under_another_root_is_not_trusted_and_nothing_is_fetched(site: Site) -> None:
    with site.pccs:
        ended = site.status(root=False)
    assert (ended.code, ended.out) == (4, "")
    assert site.pccs.asked == []


def test_what_cannot_be_meant_is_refused_before_anybody_is_asked(site: Site) -> None:
    with site.pccs:
        plain = site.status(url="http://127.0.0.1:1")
        both = site.status("--collateral", "bundle.json")
    assert (plain.code, both.code) == (1, 1)
    assert "address of the PCCS" in plain.err
    assert "named twice" in both.err
    assert site.pccs.asked == []

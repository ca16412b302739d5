"""One real coordinator for each phase, shared by the tests that leave it as it is."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.process.gramine_left_out import reason_of
from support.process.server import Server
from support.process.start import GRAMINE
from support.samples.deployment import manifest

from keyhouse.coordinator import Phase


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Under Gramine, leave out what makes no sense there."""
    if GRAMINE:
        for item in items:
            fixtures = getattr(item, "fixturenames", ())
            if reason := reason_of(item.nodeid, fixtures):
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[Phase, Server]]:
    """Coordinators that wait for a manifest, that run (both gates open), that are locked."""
    folder: Path = tmp_path_factory.mktemp("phases")
    raw = manifest(FeatureGates=["SignQuoteEndpoint", "MonotonicCounter"])
    lost = Server(folder / "recovery")
    with lost, lost.client() as client:
        assert client.set_manifest(raw).status == 200
    (folder / "recovery" / "sealed_key").unlink()
    accepting, running = Server(folder / "accepting"), Server(folder / "running")
    with lost, accepting, running:
        with running.client() as client:
            assert client.set_manifest(raw).status == 200
        yield {
            Phase.RECOVERY: lost,
            Phase.ACCEPTING_MANIFEST: accepting,
            Phase.RUNNING: running,
        }


@pytest.fixture
def running(servers: dict[Phase, Server]) -> Server:
    """The coordinator that runs."""
    return servers[Phase.RUNNING]

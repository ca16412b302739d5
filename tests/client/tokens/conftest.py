"""A coordinator for users whose keys are on a token."""

from collections.abc import Iterator

import pytest
from support.peers.peer import serving
from support.process.softhsm import known_to, trusted

from keyhouse.client import TrustedCoordinator


@pytest.fixture(scope="module")
def somewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TrustedCoordinator]:
    """A coordinator that runs."""
    peer = known_to("EC")
    with serving(peer, tmp_path_factory.mktemp("peer")) as address:
        yield trusted(peer, address)

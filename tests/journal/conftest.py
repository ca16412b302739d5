"""What the tests of journals share."""

from collections.abc import Iterator

import pytest
from support.process.postgres import PostgresServer


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    with PostgresServer.running() as server:
        yield server

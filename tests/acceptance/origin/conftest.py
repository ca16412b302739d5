"""Coordinators on one database, which each test has for itself."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.peers.postgres import PostgresServer
from support.peers.replicas import Replicas


@pytest.fixture
def replicas(postgres: PostgresServer, tmp_path: Path) -> Iterator[Replicas]:
    """Have none yet; those that a test starts are ended."""
    found = Replicas(tmp_path, postgres.url(asyncio.run(postgres.database())))
    yield found
    found.end()

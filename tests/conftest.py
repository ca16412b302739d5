"""What holds for all tests: settings of Hypothesis, signals as in a terminal, one PostgreSQL."""

import gc
import os
import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from support.process.divided import divide

if TYPE_CHECKING:
    from support.peers.postgres import PostgresServer

divide(os.environ.get("KEYHOUSE_TESTS_DIVIDED", ""))

# By default an example that takes more than 200 ms fails, and so does a machine that stalls once
# among some ten thousand examples, or that is busy while a test begins. What a test shows is no
# matter of time; the suite's own limit ends one that hangs.
settings.register_profile("keyhouse", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("keyhouse")

# Shells start what is to run in the background with Ctrl-C ignored, and every process below would
# inherit that. Tests send it to programs that have to end.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


gc.disable()  # until all is collected


def pytest_collection_finish() -> None:
    """Never look for garbage in what collecting thousands of tests has made: it stays.

    And look rarely for it in what tests make: that took a fifteenth of the time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    gc.enable()


@pytest.fixture(scope="session")
def postgres() -> "Iterator[PostgresServer]":
    """The only server of the session: to make one takes seconds."""
    from support.peers.postgres import PostgresServer

    with PostgresServer.running() as server:
        yield server

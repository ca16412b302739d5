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

# A shell starts background jobs with SIGINT and SIGQUIT ignored, and every process below would
# inherit this. Tests send both signals to programs.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGQUIT) is signal.SIG_IGN:
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)


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

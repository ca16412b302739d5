"""Settings of Hypothesis, signals and garbage collection, and the PostgreSQL of the session."""

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

# By default Hypothesis fails an example of more than 200 ms. A machine stalls about once in ten
# thousand examples, or is busy while a test begins. Such an example would then fail. A verdict
# must not depend on time; the limit of the suite ends a hanging test.
settings.register_profile("keyhouse", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("keyhouse")

# A shell starts background jobs with SIGINT and SIGQUIT ignored, and every child process would
# inherit this. Tests send both signals to programs.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGQUIT) is signal.SIG_IGN:
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)


gc.disable()  # until pytest_collection_finish


def pytest_collection_finish() -> None:
    """Exclude the objects of the collected tests from garbage collection: they stay until the end.

    Later collections are rare: with the default thresholds they took a fifteenth of the time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    gc.enable()


@pytest.fixture(scope="session")
def postgres() -> "Iterator[PostgresServer]":
    """Start the only PostgreSQL of the session; a start takes seconds."""
    from support.peers.postgres import PostgresServer

    with PostgresServer.running() as server:
        yield server

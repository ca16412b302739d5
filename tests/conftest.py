"""What holds for all tests: settings of Hypothesis, signals as in a terminal, one PostgreSQL."""

import gc
import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import pytest
from _pytest.runner import runtestprotocol
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from support.peers.postgres import PostgresServer

# By default an example that takes more than 200 ms fails, and so does a machine that stalls once
# among some ten thousand examples, or that is busy while a test begins. What a test shows is no
# matter of time; the suite's own limit ends one that hangs.
settings.register_profile("keyhouse", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("keyhouse")

_WORTH_TELLING: Final = 0.005
"""Seconds: what is shorter, ``--durations`` leaves out."""

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


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Have a worker of pytest-xdist send what is told of a test, and not six messages for each.

    Of a setup and of a teardown that is that they failed, or took long. For ten thousand tests the
    rest took as long as the tests of a whole folder.
    """
    if not hasattr(item.config, "workerinput"):
        return None
    for report in runtestprotocol(item, log=False, nextitem=nextitem):
        if report.when == "call" or not report.passed or report.duration >= _WORTH_TELLING:
            item.ihook.pytest_runtest_logreport(report=report)
    return True


@pytest.fixture(scope="session")
def postgres() -> "Iterator[PostgresServer]":
    """The only server of the session: to make one takes seconds."""
    from support.peers.postgres import PostgresServer

    with PostgresServer.running() as server:
        yield server

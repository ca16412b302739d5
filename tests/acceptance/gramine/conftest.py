"""A runtime of its own for the tests under Gramine, made once for all workers."""

import os
from pathlib import Path

import pytest
from support.process.gramine import make_runtime, require_gramine

from keyhouse.client.file_lock import locked


@pytest.fixture(scope="session")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a Python and Keyhouse in it; the test is skipped without Gramine."""
    require_gramine()
    base = tmp_path_factory.getbasetemp()
    place = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "gramine"
    with locked(place):
        if not (place / "done").exists():
            make_runtime(place)
            (place / "done").touch()
    return place / "runtime"

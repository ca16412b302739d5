"""Make the benchmarks importable, also for their processes: they are no part of a distribution."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

_TOOLS: Final = str(Path(__file__).parents[2] / "tools")

sys.path.append(_TOOLS)


@pytest.fixture(autouse=True, scope="module")
def _children() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", _TOOLS)
        yield

"""Make the benchmarks importable, also for their processes: they are no part of a distribution."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

_ROOT: Final = Path(__file__).parents[2]
_PATH: Final = (str(_ROOT / "tools"), str(_ROOT))  # benchmarks, and examples

sys.path.extend(_PATH)


@pytest.fixture(autouse=True, scope="module")
def _children() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(_PATH))
        yield

"""The benchmark of a whole join runs, with a short history. No time is asserted."""

from pathlib import Path

import pytest
from benchmarks.origin_join import measure, table

pytestmark = pytest.mark.acceptance


def test_coordinators_join_behind_recorded_starts(tmp_path: Path) -> None:
    joins = measure(tmp_path, starts=10, rounds=1)
    assert [len(joins.plain), len(joins.behind)] == [1, 1]
    printed = table(joins, 10)
    assert printed.startswith("join after 10 starts and 20 updates")
    assert printed.endswith("wanted: at most 0.3 s more")

"""The numbers of files on each path of a request, in ARCHITECTURE.md."""

from pathlib import Path

import pytest
from ways.paths import record_paths
from ways.table import PAGE, renewed, shown

pytestmark = pytest.mark.acceptance

RENEW = "run scripts/ways --write, and say in the commit why the path is longer"
UNNOTICED = 3  # files; work beside a path may be in all recordings


def test_the_page_shows_the_length_of_each_path(tmp_path: Path) -> None:
    page = PAGE.read_text(encoding="utf-8")
    recorded = record_paths(tmp_path)
    files = {name: len(calls) for name, calls in recorded.items()}

    shown_files = shown(page)
    assert shown_files.keys() == files.keys()
    stale = {
        name: count for name, count in files.items() if abs(count - shown_files[name]) > UNNOTICED
    }
    assert stale == {}, RENEW
    # The renewed page shows the recorded numbers.
    assert shown(renewed(page, recorded)) == files
    # The recorder sees both ends of a path, and neither an import nor a foreign file.
    assert {"keyhouse.server.net.acceptor", "keyhouse.journal.store.sqlite"} <= {
        *recorded["upload"]
    }
    assert "keyhouse.server.net.acceptor" not in recorded["read"]

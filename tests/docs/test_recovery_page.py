"""The page about recovery does what it says, against real coordinators."""

from pathlib import Path

import pytest
from support.process.page import walk
from support.process.server import Server

_PAGE = Path(__file__).parent.parent.parent / "docs/how-to/recovery.md"
_LOST = "## The machine is lost"
_TRUST = """```sh
TRUST="--attestation keyhouse-data/simulation/attestation.json \
  --simulation-root keyhouse-data/simulation/root.pem"
```
"""

pytestmark = pytest.mark.acceptance


def test_every_command_of_the_recovery_page_works(tmp_path: Path) -> None:
    server = Server(tmp_path / "keyhouse-data")
    page = _PAGE.read_text(encoding="utf-8").replace("127.0.0.1:4433", f"127.0.0.1:{server.port}")
    before, _, after = page.partition(_LOST)
    lose, serve, recover = after.partition("```sh\nkeyhouse serve")
    assert serve

    with server:
        walk(before, tmp_path)
    assert (tmp_path / "again.json").read_text() == (tmp_path / "recovery.json").read_text()
    walk(lose, tmp_path)
    with server:
        printed = walk(f"{_TRUST}{serve}{recover}", tmp_path)

    assert "recovery mode" in printed
    assert "your recovery key: ann" in printed
    assert "1 more needed" in printed
    assert 'recovered with the shares of: "ann", "ben"' in printed

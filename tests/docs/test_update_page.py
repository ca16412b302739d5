"""Updating with several parties does what the page says, against a real coordinator."""

import json
from pathlib import Path

import pytest
from support.process.dev import walk_with_dev

_PAGE = Path(__file__).parent.parent.parent / "docs/how-to/update-with-several-parties.md"

pytestmark = pytest.mark.acceptance


def test_every_command_of_the_update_page_works(tmp_path: Path) -> None:
    printed = walk_with_dev(_PAGE.read_text(encoding="utf-8"), tmp_path)

    assert "1 more of: bob, carol" in printed
    assert "next: 1 of bob, carol reads the same file" in printed
    assert '>     "second": {' in printed  # the diff
    plans = [line for line in printed.splitlines() if line.startswith("plan: ")]
    # Alice looks and applies, Bob looks and acknowledges; Bob's last proposal is another one.
    assert (len(plans), len(set(plans))) == (5, 2)
    assert 'secret "second" is added: it is generated now' in printed
    assert "the update is in force" in printed
    assert "cancelled" in printed
    log = [line.split("  ")[1] for line in printed.splitlines() if "Z  Manifest update" in line]
    assert log == ["Manifest update initiated", "Manifest update acknowledged", "Manifest updated"]
    files = {"keyhouse-dev/recovery-secrets.json": "first", "new-recovery.json": "second"}
    for file, holder in files.items():
        assert set(json.loads((tmp_path / file).read_text())["RecoverySecrets"]) == {holder}
        assert (tmp_path / file).stat().st_mode & 0o777 == 0o600
    assert not list(tmp_path.glob("recovery-secrets-*"))

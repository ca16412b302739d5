"""Floods of cheap records, requests and frames: each kind is sent, and it ends by itself."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.floods import run
from benchmarks.floods.kinds import KINDS

ROOT = Path(__file__).parents[2]


def test_every_flood_is_sent_and_an_honest_client_is_answered_beside_it(tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"
    words = ["--floods", "--connections", "2", "--kilobytes", "24", "--rounds", "1"]
    subprocess.run(
        [sys.executable, "-m", "benchmarks.floods.run", *words, "--json", str(figures)],
        check=True,
        cwd=ROOT,
        env={"PYTHONPATH": "tools:tests"},
        capture_output=True,
    )
    rows = json.loads(figures.read_bytes())["rows"]
    assert [row["what"] for row in rows] == ["no flood", *(kind.name for kind in KINDS)]
    assert all(row["values"]["longest wait, ms"][0] > 0 for row in rows)
    assert all(row["values"]["of it processor, ms"][0] >= 0 for row in rows)
    assert all(row["values"]["one unit, processor, ms"][0] >= 0 for row in rows[1:])
    units = {row["what"]: row["values"]["units sent"][0] for row in rows[1:]}
    assert all(units.values())
    ended = {row["what"]: row["values"]["cut off"][0] for row in rows[1:]}
    assert ended["KeyUpdate"] == ended["KeyUpdate, workload API"] == ended["pings"] == 2
    assert ended["control: requests for the status, 300 a record"] == 0


@pytest.mark.parametrize(
    "words",
    [
        ("--connections", "0"),
        ("--connections", "1001"),
        ("--kilobytes", "1025"),
        ("--rounds", "21"),
    ],
)
def test_flood_without_bounds_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    monkeypatch.setattr(sys, "argv", ["bench", "--floods", *words])
    with pytest.raises(SystemExit):
        run.main()
    assert words[0] in capsys.readouterr().err

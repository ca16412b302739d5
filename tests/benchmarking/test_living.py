"""The benchmark of running workloads: each of its figures is measured, with a few workloads."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.living import run

ROOT = Path(__file__).parents[2]


def test_renewals_streams_uploads_and_an_update_are_measured(tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"
    words = ["--living", "--renewals", "3", "--rounds", "1", "--readers", "2", "--uploads", "2"]
    subprocess.run(
        [
            *(sys.executable, "-m", "benchmarks.living.run", *words),
            *("--watchers", "4", "--idle", "0.1", "--json", str(figures)),
        ],
        check=True,
        cwd=ROOT,
        env={"PYTHONPATH": "tools:tests:."},
        capture_output=True,
    )
    rows = {
        row["what"]: row["values"]["coordinator"][0]
        for row in json.loads(figures.read_bytes())["rows"]
    }
    for positive in (
        "renewals without quotes, /s",
        "renewals with quotes, /s",
        "upload to rewritten file, 2 watchers, p99 s",
        "upload to rewritten file, 4 watchers, p99 s",
        "update, 4 watchers: all have renewed, s",
        "update, 4 watchers: longest status beside, ms",
    ):
        assert rows[positive] > 0
    assert rows["update, 4 watchers: failed calls"] == 0
    assert 1 <= rows["update, 4 watchers: renewals in the busiest second"] <= 4


@pytest.mark.parametrize("words", [("--watchers", "1"), ("--renewals", "4001"), ("--rounds", "0")])
def test_a_benchmark_without_bounds_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: tuple[str, str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["bench", "--living", *words])
    with pytest.raises(SystemExit):
        run.main()
    assert words[0] in capsys.readouterr().err

"""The whole benchmark, as short as it goes: real servers, real uploads, nothing left behind."""

import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from benchmarks.figures import SHORT
from benchmarks.result import Result
from benchmarks.scenarios import SECRETS

ROOT = Path(__file__).parents[2]


@pytest.mark.acceptance
def test_short_run_measures_everything_without_errors_and_leaves_nothing(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    figures = tmp_path / "figures.json"
    arguments = ["--quick", "--seconds", "0.05", "--rounds", "1", "--earlier-writes", "10"]
    arguments += ["--earlier-activations", "20"]
    command = [sys.executable, "-m", "benchmarks.run", *arguments]
    command += ["--directory", str(data), "--json", str(figures)]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as runner:
        try:
            printed, errors = runner.communicate()
        except BaseException:  # out of time: what it has started ends with it
            runner.send_signal(signal.SIGINT)
            raise
    assert runner.returncode == 0, errors
    result = msgspec.json.decode(figures.read_bytes(), type=Result)
    assert all(series.errors == 0 for series in result.series)
    assert {row.scenario for row in result.comparisons} == {
        *("status", "manifest", "update", "quote", "read", "read-all", "read-beside"),
        *("new-p256", "upload-1", "upload-8"),
    }
    assert result.earlier_writes == 10
    assert set(result.footprint.loaded_kib) == {SHORT, *SECRETS}
    assert len(result.footprint.bulk_upload_ms) == 5
    assert len(result.footprint.large_manifest_ms) == 1
    assert len(result.footprint.large_start_ms) == 1
    assert len(result.footprint.large_update_ms) == 1
    assert len(result.footprint.recovery_ms) == 1
    assert [cost.quote for cost in result.quotes] == ["sgx_quote", "tdx_quote"]
    assert "verify sgx_quote, machine known" in printed
    assert "1,000/100" in printed
    assert "10,000/100" in printed
    assert "written/100" in printed
    assert not list(data.iterdir())

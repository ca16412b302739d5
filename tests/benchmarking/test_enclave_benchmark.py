"""The benchmark under gramine-direct: as short as it goes where that is there, or it says so."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from benchmarks.enclaves import EnclaveFigures, enclave_report
from benchmarks.processes import Processors
from benchmarks.surroundings import look_around
from support.process.gramine import require_gramine

ROOT = Path(__file__).parents[2]
WORDS = (sys.executable, "-m", "benchmarks.run", "--gramine", "--seconds", "0.05", "--rounds", "1")


def _run(*more: str, path: str, timeout: float) -> "subprocess.CompletedProcess[str]":
    inherited = os.environ.get("PYTHONPATH", "")
    environment = {**os.environ, "PATH": path, "PYTHONPATH": f"{ROOT / 'tests'}:{inherited}"}
    return subprocess.run(
        [*WORDS, *more],
        cwd=ROOT,
        env=environment,
        check=False,
        capture_output=True,
        text=True,
        timeout=timeout,
    )


def test_without_gramine_nothing_is_measured_and_it_says_why(tmp_path: Path) -> None:
    done = _run("--directory", str(tmp_path), path=str(tmp_path), timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("skipped: gramine-direct is not on PATH")
    assert not list(tmp_path.iterdir())


@pytest.mark.acceptance
@pytest.mark.timeout(600)
def test_short_run_measures_both_without_errors_and_leaves_nothing(tmp_path: Path) -> None:
    require_gramine()
    data, figures = tmp_path / "data", tmp_path / "figures.json"
    data.mkdir()
    assert shutil.which("gramine-direct")
    arguments = ("--directory", str(data), "--json", str(figures))
    done = _run(*arguments, path=os.environ["PATH"], timeout=500)
    assert done.returncode == 0, done.stderr
    found = msgspec.json.decode(figures.read_bytes(), type=EnclaveFigures)
    assert {row.split(",")[0] for row in found.rows} >= {"status beside 4", "upload", "start ms"}
    kinds = {"native", "gramine", "no file checks"}
    assert {kind for row in found.rows.values() for kind in row} == kinds
    assert all(min(values) > 0 for row in found.rows.values() for values in row.values())
    assert "start with 10,000 secrets ms" in done.stdout
    assert not list(data.iterdir())


def test_the_report_has_the_best_and_the_median_of_each_kind(tmp_path: Path) -> None:
    figures = EnclaveFigures(look_around(tmp_path, Processors.available()))
    for kind, times in {"native": (300.0, 280.0, 500.0), "gramine": (3200.0, 4000.0)}.items():
        for took in times:
            figures.note("start ms", kind, took)
            figures.note("upload, 8 clients /s", kind, took)
    *_, first, second = enclave_report(figures).splitlines()
    assert " ".join(first.split()) == "start ms 280 / 300 3,200 / 3,600 -"
    assert " ".join(second.split()) == "upload, 8 clients /s 500 / 300 4,000 / 3,600 -"

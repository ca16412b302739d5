"""Every place states the version of the source, and a release changes all of them at once."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from releasing.places import PLACES, SOURCE, read_source, versions, write_version
from support.distributions import ROOT

from keyhouse.base.version import BUILD_TIME, VERSION

_LATER = 1_900_000_000


def _copy(tmp_path: Path) -> Path:
    for file in (SOURCE, *(place.file for place in PLACES)):
        target = tmp_path / file
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, target)
    return tmp_path


def test_every_place_has_the_version_of_the_source() -> None:
    assert read_source(ROOT) == (VERSION, BUILD_TIME // 1_000_000)
    assert {version for _, version in versions(ROOT)} == {VERSION}


def test_no_project_or_chart_states_the_version_in_a_further_place() -> None:
    for place in PLACES[:3]:
        text = (ROOT / place.file).read_text(encoding="utf-8")
        stated = re.findall(rf"(?<![0-9.]){re.escape(VERSION)}(?![0-9.])", text)
        assert len(stated) == place.number, place.file


def test_a_release_writes_version_and_build_time_everywhere(tmp_path: Path) -> None:
    tree = _copy(tmp_path)
    write_version(tree, "9.8.7", _LATER, "2030-03-17T17:46:40Z")
    assert read_source(tree) == ("9.8.7", _LATER)
    assert {version for _, version in versions(tree)} == {"9.8.7"}
    written = subprocess.run(
        [sys.executable, "-c", "import runpy; print(runpy.run_path('version.py')['BUILD_TIME'])"],
        cwd=(tree / SOURCE).parent,
        check=True,
        capture_output=True,
        text=True,
    )
    assert int(written.stdout) == _LATER * 1_000_000
    assert '"""2030-03-17T17:46:40Z, in microseconds' in (tree / SOURCE).read_text("utf-8")


def test_a_build_time_never_decreases(tmp_path: Path) -> None:
    tree = _copy(tmp_path)
    with pytest.raises(ValueError, match="build time 1 "):
        write_version(tree, "9.8.7", 1, "1970-01-01T00:00:01Z")


@pytest.mark.parametrize("version", ["1.0", "v1.0.0", "1.0.0rc1"])
def test_a_version_has_three_numbers(version: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="three numbers"):
        write_version(_copy(tmp_path), version, _LATER, "")


def test_a_missing_place_is_an_error(tmp_path: Path) -> None:
    tree = _copy(tmp_path)
    chart = tree / "deploy/helm/keyhouse/Chart.yaml"
    chart.write_text(chart.read_text("utf-8").replace("appVersion", "application"), "utf-8")
    with pytest.raises(ValueError, match=r"Chart.yaml .* 1 .* 2"):
        versions(tree)

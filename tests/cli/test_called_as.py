"""A command that is shown to be typed runs the program that showed it."""

import os
import sys
from pathlib import Path

import pytest

from keyhouse.cli.dev.steps import called_as


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A program of our name in a directory of its own."""
    folder = tmp_path / "environment/bin"
    folder.mkdir(parents=True)
    place = folder / "keyhouse"
    place.touch(0o755)
    return place


def test_a_program_on_path_is_called_by_its_name(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"/nowhere{os.pathsep}{program.parent}")
    monkeypatch.setattr(sys, "argv", [str(program), "dev"])
    assert called_as() == ("keyhouse",)


def test_a_program_off_path_is_called_by_its_place(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.chdir(program.parent.parent)
    monkeypatch.setattr(sys, "argv", ["bin/keyhouse", "dev"])
    assert called_as() == (str(program),)


def test_another_program_of_the_name_on_path_is_not_called(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "keyhouse"
    other.touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "argv", [str(program), "dev"])
    assert called_as() == (str(program),)


def test_a_module_is_called_by_its_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/somewhere/keyhouse/cli/__main__.py", "dev"])
    assert called_as() == (sys.executable, "-m", "keyhouse.cli")


def test_a_program_in_an_environment_of_uvx_is_called_by_its_place(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(program.parent))
    monkeypatch.setenv("UV", "/usr/bin/uv")
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    monkeypatch.setattr(sys, "argv", [str(program), "dev"])
    assert called_as() == (str(program),)

"""The script that makes ``.venv``: what it refuses before anything is removed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SETUP = Path(__file__).parents[2] / "scripts" / "setup"


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """Return a directory with the script, and a ``.venv`` that an earlier version made."""
    (tmp_path / "scripts").mkdir()
    shutil.copy(SETUP, tmp_path / "scripts")
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    (programs / "python-of-venv").symlink_to(sys.executable)
    return tmp_path


def set_up(clone: Path, *words: str, path: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [clone / "scripts" / "setup", *words],
        env={"PATH": path + os.defpath, "PYTHON": "python-of-venv"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("copies", [1, 3])
def test_what_is_in_the_environment_does_not_make_it_again(clone: Path, copies: int) -> None:
    """The tutorial has people put it in front of PATH; it was removed, and then missing."""
    ended = set_up(clone, path=f"{clone}/.venv/bin:" * copies)

    assert ended.returncode == 1
    assert ended.stderr.startswith("error: PYTHON=python-of-venv: no Python 3.11 or newer")
    assert (clone / ".venv/bin/python-of-venv").exists()


@pytest.mark.parametrize("words", [("nonsense",), ("runtime", "development")])
def test_other_words_are_refused(clone: Path, words: tuple[str, ...]) -> None:
    ended = set_up(clone, *words)

    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == "usage: scripts/setup [runtime|development]\n"

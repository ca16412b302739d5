"""The script that makes ``.venv``: what it refuses before anything is removed."""

import os
import re
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


def set_up(
    clone: Path, *words: str, path: str = "", python: str = "python-of-venv"
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [clone / "scripts" / "setup", *words],
        env={"PATH": path + os.defpath, "PYTHON": python},
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


_WITHOUT_ENSUREPIP = """#!/bin/sh
case "$*" in
  *ensurepip*) exit 1 ;;
  "-m pip --version") exit 0 ;;
  *" install "*) printf '%s' "$*" >{asked}; exit 3 ;;
  "-m venv "*) mkdir -p .venv/bin; exit 0 ;;
esac
exec {python} "$@"
"""


@pytest.mark.skipif(bool(shutil.which("uv", path=os.defpath)), reason="uv needs no pip")
def test_where_ensurepip_is_missing_the_pip_of_the_lock_is_fetched(clone: Path) -> None:
    for needed in (
        "locks/console.txt",
        "locks/development.txt",
        "pyproject.toml",
        "simulation/pyproject.toml",
    ):
        (clone / needed).parent.mkdir(exist_ok=True)
        (clone / needed).touch()
    python, asked = clone / "without-ensurepip", clone / "asked"
    python.write_text(_WITHOUT_ENSUREPIP.format(asked=asked, python=sys.executable))
    python.chmod(0o700)

    ended = set_up(clone, python=str(python))

    assert ended.returncode == 3
    words = asked.read_text().split()
    assert words[:5] == ["-m", "pip", "--python", ".venv/bin/python", "install"]
    assert "--require-hashes" in words
    assert words[-2:] == ["-r", "locks/pip.txt"]
    lock = (SETUP.parents[1] / "locks" / "pip.txt").read_text()
    assert re.search(r"^pip==\S+ \\\n +--hash=sha256:", lock, re.MULTILINE)


def test_each_installation_of_a_lock_leaves_the_resolver_out() -> None:
    # pip 23.0 (Debian 12) refused the lock when coverage 7.17.4 appeared: it looked for the newest
    # version of ``coverage[toml]`` and then missed its hash. A lock is complete, so nothing is left
    # to resolve.
    listed = subprocess.run(
        ("git", "grep", "-hI", "-e", "--require-hashes", "--", "scripts", "deploy", "docs/how-to"),
        cwd=SETUP.parents[1],
        capture_output=True,
        text=True,
        check=True,
    )
    commands = listed.stdout.splitlines()
    assert len(commands) >= 9
    assert [command for command in commands if "--no-deps" not in command] == []


@pytest.mark.parametrize("words", [("nonsense",), ("runtime", "development")])
def test_other_words_are_refused(clone: Path, words: tuple[str, ...]) -> None:
    ended = set_up(clone, *words)

    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == "usage: scripts/setup [runtime|development]\n"


def test_environment_to_run_keyhouse_includes_the_console() -> None:
    """A second ``pip install '.[console]'`` replaced the editable installation by a copy."""
    script = SETUP.read_text()
    locked = (SETUP.parents[1] / "locks/console.txt").read_text()

    assert "-r locks/console.txt" in script
    for package in ("jinja2", "starlette", "uvicorn"):
        assert re.search(rf"^{package}==[0-9.]+ ", locked, re.MULTILINE)


def test_console_has_the_versions_of_the_development_environment() -> None:
    locks = SETUP.parents[1] / "locks"
    pins = re.findall(r"^[a-z0-9-]+==[0-9.]+", (locks / "console.txt").read_text(), re.MULTILINE)
    tested = (locks / "development.txt").read_text()

    assert pins
    assert [pin for pin in pins if f"\n{pin} " not in f"\n{tested}"] == []

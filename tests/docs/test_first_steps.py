"""The first steps do what they say: each block is run, against a real coordinator."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from keyhouse_tests_server import Server

_PAGE = Path(__file__).parent.parent.parent / "docs/how-to/first-steps.md"
_STEP = re.compile(
    r"Save this as `([a-z_]+\.py)`[^`]*?```python\n(.*?)^```$|^```sh\n(.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
_LEFT_OUT = ("scripts/setup", "keyhouse serve")  # what the test does itself

pytestmark = pytest.mark.acceptance


def _run(commands: str, folder: Path) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-e", "-c", commands],
        cwd=folder,
        env={"PATH": path, "HOME": str(folder)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, f"{commands}\n{done.stderr}"
    return done.stdout


def _walk(page: str, folder: Path) -> dict[str, str]:
    """Do every step of ``page``; return what each block of commands printed."""
    printed = {}
    for file, program, commands in _STEP.findall(page):
        if file:
            (folder / file).write_text(program, encoding="utf-8")
        elif not commands.startswith(_LEFT_OUT):
            printed[commands.split()[0]] = _run(commands, folder)
    return printed


def test_every_block_of_the_first_steps_works(tmp_path: Path) -> None:
    server = Server(tmp_path / "keyhouse-data")
    page = _PAGE.read_text(encoding="utf-8").replace("127.0.0.1:4433", f"127.0.0.1:{server.port}")

    with server:
        printed = _walk(page, tmp_path)

        assert "ready to accept a manifest" in printed["keyhouse"]
        assert "greeting is hello" in printed["python"]
        assert "Initial manifest set" in printed["python"]
        assert "Secret set" in printed["python"]

    with server:
        again = _run("python use.py", tmp_path)
        assert "master has 256 bits" in again

    (tmp_path / "keyhouse-data/sealed_key").unlink()
    with server:
        assert (
            "recovery mode" in _walk(page.partition("## Write a manifest")[0], tmp_path)["keyhouse"]
        )

"""The man pages say what the commands say of themselves, and can be shown."""

import shutil
import subprocess

import pytest
from support.man import MAN, pages

_NEW = "renew them: PYTHONPATH=tests .venv/bin/python -m support.man"


def test_there_is_a_page_for_each_command() -> None:
    assert sorted(path.name for path in MAN.glob("*")) == sorted(pages()), _NEW


@pytest.mark.parametrize("name", sorted(pages()))
def test_page_is_as_the_command_has_it(name: str) -> None:
    assert (MAN / name).read_text(encoding="utf-8") == pages()[name], _NEW


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_pages_are_shown_without_a_warning() -> None:
    files = [str(path) for path in sorted(MAN.glob("*.1"))]

    shown = subprocess.run(
        ["groff", "-man", "-Tascii", "-ww", *files], capture_output=True, text=True, check=True
    )

    assert shown.stderr == ""
    assert "--attestation" in shown.stdout

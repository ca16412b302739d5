"""The man pages are made from the commands, and can be shown."""

import shutil
import subprocess
from pathlib import Path

import pytest
from support.process.command_tree import below

from keyhouse.cli.commands import ROOT

BUILD = Path(__file__).parents[2] / "scripts" / "man"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the script wrote."""
    folder = tmp_path_factory.mktemp("man")
    subprocess.run([BUILD, folder], check=True, capture_output=True)
    return folder


def test_there_is_a_page_for_each_command_and_one_for_all(built: Path) -> None:
    offered = [name for name, one in below(ROOT).items() if not one.hidden]

    assert sorted(path.name for path in built.iterdir()) == sorted(
        ["keyhouse.1", *(f"keyhouse-{name}.1" for name in offered)]
    )


def test_pages_show_summaries_and_options(built: Path) -> None:
    page = (built / "keyhouse-status.1").read_text(encoding="utf-8")

    assert (below(ROOT)["status"].help or "").split("\n")[0].rstrip(".").split()[0] in page
    assert r"\-\-attestation" in page


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_pages_are_shown_without_a_warning(built: Path) -> None:
    files = [str(path) for path in sorted(built.glob("*.1"))]

    shown = subprocess.run(
        ["groff", "-man", "-Tascii", "-ww", *files], capture_output=True, text=True, check=True
    )

    assert shown.stderr == ""
    assert "--attestation" in shown.stdout

"""The list of trusted code is that of real runtime directories, and other code leaves it alone."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.distributions import ROOT
from support.installed import build_wheels, install, packages
from support.pages.trusted_code import PROGRAMS, listed, parts_below

pytestmark = pytest.mark.acceptance

_TREE = ("LICENSE", "README.md", "pyproject.toml", "deploy", "scripts", "simulation", "src")
_FOR_PEOPLE = ("console/page.py", "cli/commands.py", "evidence/verify.py")


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The wheels of this tree."""
    return build_wheels(tmp_path_factory.mktemp("wheels"))


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_runtime_directory_has_the_listed_modules_and_no_other(
    program: str, wheels: dict[str, Path], tmp_path: Path
) -> None:
    install(tmp_path, PROGRAMS[program], wheels)
    found = {each.name: each.digest for each in parts_below(packages(tmp_path))}
    modules, _ = listed(program)
    assert found == modules


def test_a_change_for_people_leaves_the_trusted_wheels_as_they_are(
    wheels: dict[str, Path], tmp_path: Path
) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    for name in _TREE:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, tree / name)
    for name in _FOR_PEOPLE:
        with (tree / "src" / "keyhouse" / name).open("a", encoding="utf-8") as file:
            file.write("\n# Another version.\n")
    changed = tmp_path / "changed"
    subprocess.run(
        [str(tree / "scripts" / "build"), str(changed)],
        env={"PATH": "/usr/bin:/bin", "PYTHON": sys.executable},
        check=True,
        capture_output=True,
        timeout=120,
    )
    differing = {
        name
        for name, path in wheels.items()
        if (changed / path.name).read_bytes() != path.read_bytes()
    }
    assert differing == {"keyhouse"}

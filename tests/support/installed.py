"""Fresh environments with one of the shipped distributions and its locked libraries."""

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from zipfile import ZipFile

from support.distributions import ROOT, TABLE

__all__ = ["build_wheels", "copy_distribution", "install", "locked", "packages"]


def build_wheels(folder: Path) -> dict[str, Path]:
    """Run scripts/build in ``folder``; return the wheels by distribution."""
    subprocess.run(
        [str(ROOT / "scripts" / "build"), str(folder)],
        env={**os.environ, "PYTHON": sys.executable},
        check=True,
        capture_output=True,
        timeout=120,
    )
    return {each.name.split("-")[0].replace("_", "-"): each for each in folder.glob("*.whl")}


def locked(lock: str) -> list[str]:
    """Return the names in ``locks/<lock>.txt``."""
    text = (ROOT / "locks" / f"{lock}.txt").read_text(encoding="utf-8")
    return re.findall(r"^([A-Za-z0-9_.-]+)==", text, re.MULTILINE)


def install(folder: Path, name: str, wheels: dict[str, Path]) -> Path:
    """Return the Python of a new environment in ``folder`` with the distribution ``name``.

    Locked libraries are copied from the environment of the tests; nothing is downloaded.
    """
    venv.EnvBuilder(symlinks=True, with_pip=False).create(folder)
    library = packages(folder)
    for library_name in locked(TABLE.rows[name]["lock"]):
        copy_distribution(library_name, library)
    for each in (name, *TABLE.rows[name]["needs"]):
        with ZipFile(wheels[each]) as archive:
            archive.extractall(library)
    return folder / "bin" / "python"


def packages(folder: Path) -> Path:
    """Return the folder of the packages of an environment."""
    return Path(sysconfig.get_path("purelib", "venv", {"base": str(folder)}))


def copy_distribution(name: str, library: Path) -> None:
    """Copy the files of an installed distribution, or the metadata of an editable distribution."""
    distribution = importlib.metadata.distribution(name)
    for file in distribution.files or ():
        if file.parts[0] != ".." and "__pycache__" not in file.parts and file.suffix != ".pth":
            target = library / file
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(str(distribution.locate_file(file)), target)

"""The instructions of Dockerfiles and Containerfiles, executed in a folder."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from support.distributions import ROOT
from support.installed import copy_distribution, locked

__all__ = ["carry_out", "instructions", "sources", "stages"]

_NONE: Final[Mapping[str, str]] = MappingProxyType({})
_PLACES: Final = ("/opt/", "/build", "/wheels")


def instructions(file: Path) -> list[tuple[str, str]]:
    """Return the name and the rest of each instruction, with continued lines joined."""
    lines = [line for line in file.read_text("utf-8").splitlines() if not line.startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    return [(name, rest.strip()) for name, rest in re.findall(r"(?m)^([A-Z]+) (.*)$", joined)]


def stages(file: Path) -> dict[str, list[tuple[str, str]]]:
    """Return the instructions of each stage by its name; the last stage has an empty name."""
    found: dict[str, list[tuple[str, str]]] = {}
    name = "before"
    for word, rest in instructions(file):
        if word == "FROM":
            name = rest.partition(" AS ")[2]
        found.setdefault(name, []).append((word, rest))
    return found


def sources(file: Path) -> set[str]:
    """Return the paths that the instructions copy from the tree."""
    copied = [shlex.split(rest) for name, rest in instructions(file) if name == "COPY"]
    outside = [words for words in copied if not words[0].startswith("--from=")]
    return {word for words in outside for word in words[:-1] if not word.startswith("-")}


def carry_out(
    file: Path,
    names: list[str],
    folder: Path,
    wheels: Path,
    around: Mapping[str, str] = _NONE,
    umask: int = -1,
) -> None:
    """Execute the ENV, RUN and COPY instructions of the stages ``names`` below ``folder``.

    The absolute paths of the image are below ``folder``. The wheels of Keyhouse come from
    ``wheels``. Nothing is downloaded: locked packages are copied from the environment of the
    tests, and ``apt-get`` does not run. Programs get the variables ``around`` in addition, and
    the ``umask`` (-1: the present mask).
    """
    environment = {"PATH": os.defpath, "HOME": str(folder), **around}
    build = folder / "build"
    build.mkdir(parents=True)
    (folder / "wheels").symlink_to(wheels)
    for word, rest in [each for name in names for each in stages(file)[name]]:
        if word == "ENV":
            environment |= dict(pair.split("=", 1) for pair in shlex.split(rest))
        elif word == "COPY" and not rest.startswith("--from="):
            *paths, target = shlex.split(rest)
            for path in paths:
                place = build / target / Path(path).name if target.endswith("/") else build / target
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / path, place)
        elif word == "RUN" and "apt-get" not in rest:
            _run(json.loads(rest), folder, environment, umask)


def _run(words: list[str], folder: Path, environment: dict[str, str], umask: int) -> None:
    command = [f"{folder}{word}" if word.startswith(_PLACES) else word for word in words]
    if command[0] == "python3":  # the base image provides this program
        command[0] = str(Path(sys.base_exec_prefix) / "bin" / "python3")
    if "--require-hashes" in words:
        python = command[command.index("--python") + 1] if "--python" in command else command[0]
        asked = [python, "-I", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
        told = subprocess.run(asked, env=environment, check=True, capture_output=True, text=True)
        for name in locked(Path(words[-1]).stem):
            copy_distribution(name, Path(told.stdout.strip()))
        return
    ended = subprocess.run(
        command,
        cwd=folder / "build",
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
        umask=umask,
    )
    assert ended.returncode == 0, (command, ended.stdout[-1000:], ended.stderr[-2000:])

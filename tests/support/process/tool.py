"""Programs that tests need and a machine may not have."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

__all__ = ["built_with_go", "tool"]


def tool(name: str) -> str:
    """Return the path of a program, or skip; a build server has to have it."""
    path = shutil.which(name)
    if path is None:
        if os.environ.get("CI"):
            pytest.fail(f"{name} is not installed")
        pytest.skip(f"{name} is not installed")
    return path


def built_with_go(source: Path, folder: Path) -> Path:
    """Return the program of the Go module in ``source``, built into ``folder`` without network."""
    program = folder / source.name
    environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=mod", "GOPROXY": "off"}
    environment["GOTOOLCHAIN"] = "local"
    subprocess.run(
        [tool("go"), "build", "-o", str(program), "."],
        cwd=source, env=environment, check=True, timeout=280,
    )  # fmt: skip
    return program

"""Programs that tests need and a machine may not have."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

__all__ = ["built_with_go", "built_with_sumdb", "tool"]


def tool(name: str) -> str:
    """Return the path of a program, or skip; a build server has to have it."""
    path = shutil.which(name)
    if path is None:
        if os.environ.get("CI"):
            pytest.fail(f"{name} is not installed")
        pytest.skip(f"{name} is not installed")
    return path


def built_with_sumdb(source: Path, folder: Path) -> Path:
    """Return the program in ``source``, which uses ``sumdb`` from the sources of every Go."""
    asked = [tool("go"), "env", "GOROOT", "GOVERSION"]
    root, version = subprocess.run(asked, check=True, capture_output=True, text=True).stdout.split()
    language = ".".join(version.removeprefix("go").split(".")[:2])
    sumdb = Path(root, "src/cmd/vendor/golang.org/x/mod/sumdb")
    for part in ("note", "tlog"):
        shutil.copytree(sumdb / part, folder / "x_mod" / "sumdb" / part)
    (folder / "x_mod" / "go.mod").write_text(f"module golang.org/x/mod\n\ngo {language}\n")
    copied = shutil.copytree(source, folder / source.name)
    (copied / "go.mod").write_text(
        f"module keyhouse.test/{source.name}\n\ngo {language}\n\n"
        "require golang.org/x/mod v0.0.0\n\nreplace golang.org/x/mod => ../x_mod\n"
    )
    return built_with_go(copied, folder / "built")


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

"""Programs for tests that may be missing on a machine."""

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

__all__ = ["built_by_proxy", "built_with_go", "built_with_sumdb", "tool"]


_BUILT_WITHIN: Final = 280


def tool(name: str) -> str:
    """Return the path of a program; skip the test without the program, except on a build server."""
    path = shutil.which(name)
    if path is None:
        if os.environ.get("CI"):
            pytest.fail(f"{name} is not installed")
        pytest.skip(f"{name} is not installed")
    return path


def built_with_sumdb(source: Path, folder: Path) -> Path:
    """Return the program in ``source``, built with ``sumdb`` from the sources of the local Go."""
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
    """Build the Go module in ``source`` into ``folder`` without network; return the program."""
    program = folder / source.name
    environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=mod", "GOPROXY": "off"}
    environment["GOTOOLCHAIN"] = "local"
    subprocess.run(
        [tool("go"), "build", "-o", str(program), "."],
        cwd=source, env=environment, check=True, timeout=280,
    )  # fmt: skip
    return program


def built_by_proxy(module: Path, places: Sequence[str]) -> Path:
    """Return the folder with the programs ``places``, of the versions in ``module``.

    They are built once, in the user's cache. Without Go, or without the sources in its proxy, the
    test is skipped; a build server must have Go.
    """
    go, sums = tool("go"), (module / "go.sum").read_bytes() + (module / "go.mod").read_bytes()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "keyhouse-tests"
    built = cache / f"{module.name}-{hashlib.sha256(sums).hexdigest()[:16]}"
    if not built.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            _build(go, module, places, Path(folder))
            with suppress(OSError):  # another worker was first
                Path(folder, "bin").rename(built)
    return built


def _build(go: str, module: Path, places: Sequence[str], folder: Path) -> None:
    for name in ("go.mod", "go.sum"):
        shutil.copy(module / name, folder / name)
    (folder / "bin").mkdir()
    settings = {"CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly", "GOTOOLCHAIN": "local"}
    ended = subprocess.run(
        ["nice", "-n", "10", go, "build", "-o", f"{folder / 'bin'}/", *places],
        cwd=folder, env={**os.environ, **settings}, timeout=_BUILT_WITHIN, check=False,
        capture_output=True, text=True,
    )  # fmt: skip
    if ended.returncode:
        pytest.skip(f"{module.name} could not be built: {ended.stderr[-500:]}")

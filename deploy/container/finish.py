"""Finish an environment for an image: without its tools, compiled, packed, checked.

Usage: python -I -B finish.py ENVIRONMENT, with that environment's Python. Run by the Dockerfile.
"""

import compileall
import os
import py_compile
import shutil
import subprocess
import sys
from pathlib import Path

_TOOLS = ("pip", "setuptools", "flit_core")
_FORBIDDEN = ("keyhouse_simulation", "pytest", "pip", "setuptools", "flit_core")


def main(environment: Path) -> int:
    """Return the exit code: 0 if the environment is one for production."""
    (packages,) = environment.glob("lib/python3*/*-packages")
    for tool in _TOOLS:
        _remove(environment, packages, tool)
    left = [name for name in _FORBIDDEN if _present(packages, name)]
    if left:
        sys.stderr.write(f"error: not for production: {', '.join(left)}\n")
        return 1
    # By hash and not by time: the same sources give the same bytes whenever they are built.
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    if not compileall.compile_dir(environment / "lib", quiet=2, force=True, invalidation_mode=mode):
        sys.stderr.write("error: something cannot be compiled\n")
        return 1
    Path("data").mkdir(mode=0o700, exist_ok=True)
    python = environment / "bin" / "python3"
    for words in (("keyhouse.base.process.pack_code",), ("keyhouse.cli", "version")):
        ended = subprocess.run([python, "-I", "-B", "-m", *words], check=False)  # noqa: S603 fixed
        if ended.returncode:
            return ended.returncode
    return 0


def _remove(environment: Path, packages: Path, tool: str) -> None:
    for path in (*packages.glob(f"{tool}-*.dist-info"), packages / tool):
        if path.is_dir():
            shutil.rmtree(path)
    if tool == "setuptools":
        shutil.rmtree(packages / "pkg_resources", ignore_errors=True)
        shutil.rmtree(packages / "_distutils_hack", ignore_errors=True)
        (packages / "distutils-precedence.pth").unlink(missing_ok=True)
    for script in environment.glob(f"bin/{tool}*"):
        os.unlink(script)  # noqa: PTH108 one word for one deed


def _present(packages: Path, name: str) -> bool:
    return (packages / name).exists() or any(packages.glob(f"{name}-*.dist-info"))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))

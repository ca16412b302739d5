"""Make a standalone Python in a directory, with all required libraries except those of glibc.

Usage: /usr/bin/python3 -I -B standalone.py DIRECTORY, with Debian's Python.

The Containerfile runs this program twice. The first run fills the new or empty DIRECTORY with
Python. The second run, after the installation of packages, adds the libraries of the packages.

An enclave reads only this directory, and its measurement includes all files there. The C library
comes from Gramine.
"""

import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

_LEFT_OUT = (
    *("EXTERNALLY-MANAGED", "__pycache__", "config-*", "dist-packages", "ensurepip", "idlelib"),
    *("lib2to3", "sitecustomize.py", "test", "tkinter", "turtledemo"),
    # Keyhouse does not use these modules for terminals, databases and networks. Without the
    # modules, the directory needs fewer libraries.
    *("_crypt.*", "_ctypes_test.*", "_curses*", "_dbm.*", "_gdbm.*", "_test*", "_tkinter.*"),
    *("_xx*", "nis.*", "readline.*"),
)
_OF_GLIBC = re.compile(r"(ld-linux-x86-64|lib(c|dl|m|pthread|resolv|rt|util))\.so\.[0-9]+")


def main(directory: Path) -> int:
    """Fill an empty ``directory`` with Python, add missing libraries; return the exit code."""
    if not any(directory.glob("*")):
        stdlib = Path(sysconfig.get_path("stdlib"))
        left_out = shutil.ignore_patterns(*_LEFT_OUT)
        shutil.copytree(stdlib, directory / "lib" / stdlib.name, ignore=left_out)
        (directory / "bin").mkdir()
        shutil.copy(Path(sys.executable).resolve(), directory / "bin" / "python3")
    for program in [directory / "bin" / "python3", *directory.rglob("*.so*")]:
        for library in _libraries(program):
            if not (directory / "lib" / library.name).exists():
                shutil.copy(library, directory / "lib" / library.name)
    return 0


def _libraries(program: Path) -> list[Path]:
    """Return the system's libraries for ``program``, and the libraries for these libraries.

    Libraries of glibc are not in the result. Raises ``FileNotFoundError`` for a missing library.
    """
    told = subprocess.run(["/usr/bin/ldd", program], capture_output=True, text=True, check=True)  # noqa: S603 fixed words
    if "not found" in told.stdout:
        raise FileNotFoundError(told.stdout)
    found = [Path(path) for path in re.findall(r"=> (/\S+) \(", told.stdout)]
    system = [path for path in found if path.is_relative_to("/lib") or path.is_relative_to("/usr")]
    return [path for path in system if not _OF_GLIBC.fullmatch(path.name)]


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))

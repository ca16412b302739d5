"""Make a Python of its own in a directory, with every library it needs but those of glibc.

Usage: /usr/bin/python3 -I -B standalone.py DIRECTORY, with Debian's Python. DIRECTORY is new or
empty. The Containerfile
runs it before packages are installed there, and again after, for the libraries of the packages.

An enclave reads the directory alone: what is in it is measured, and nothing of the system's is used
but the C library, which is Gramine's.
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
    # Modules of terminals, databases and networks that Keyhouse does not use, with their libraries.
    *("_crypt.*", "_ctypes_test.*", "_curses*", "_dbm.*", "_gdbm.*", "_test*", "_tkinter.*"),
    *("_xx*", "nis.*", "readline.*"),
)
_OF_GLIBC = re.compile(r"(ld-linux-x86-64|lib(c|dl|m|pthread|resolv|rt|util))\.so\.[0-9]+")


def main(directory: Path) -> int:
    """Return the exit code."""
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
    """Return the system's libraries that ``program`` loads, also those that they load."""
    told = subprocess.run(["/usr/bin/ldd", program], capture_output=True, text=True, check=True)  # noqa: S603 fixed words
    if "not found" in told.stdout:
        raise FileNotFoundError(told.stdout)
    found = [Path(path) for path in re.findall(r"=> (/\S+) \(", told.stdout)]
    system = [path for path in found if path.is_relative_to("/lib") or path.is_relative_to("/usr")]
    return [path for path in system if not _OF_GLIBC.fullmatch(path.name)]


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))

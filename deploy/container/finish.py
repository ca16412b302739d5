"""Finish an environment for an image: remove tools, check packages, compile and pack the code.

Usage: python -I -B finish.py ENVIRONMENT DISTRIBUTION LOCK, with the Python of ENVIRONMENT.
The Dockerfile and the Containerfiles run this program.

An environment may have DISTRIBUTION, its required distributions of Keyhouse, and the packages of
LOCK. Any further package, such as a build dependency, ends the build.
"""

import compileall
import py_compile
import re
import shutil
import subprocess
import sys
from importlib.metadata import Distribution, distributions
from pathlib import Path

_TOOLS = ("pip", "setuptools")
_SETUPTOOLS = ("pkg_resources", "_distutils_hack", "distutils-precedence.pth")
_USAGE = 2


def main(words: list[str]) -> int:
    """Finish the environment; return 0 if it has exactly the expected packages."""
    if len(words) != 3:  # noqa: PLR2004 the three words of the usage
        sys.stderr.write(f"{__doc__}")
        return _USAGE
    environment, wanted, lock = Path(words[0]), words[1], Path(words[2])
    (packages,) = environment.glob("lib/python3*/*-packages")
    _remove_tools(environment, packages)
    differences = [*_differences(packages, wanted, lock.read_text(encoding="utf-8"))]
    if differences:
        sys.stderr.writelines(f"error: {packages}: {each}\n" for each in differences)
        return 1
    # With hashes instead of times in the files, equal sources give equal bytes at any time.
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    if not compileall.compile_dir(environment / "lib", quiet=2, force=True, invalidation_mode=mode):
        sys.stderr.write("error: the sources above cannot be compiled\n")
        return 1
    # This program packs the code of a start, and imports all of this code.
    programs = [["keyhouse.base.process.pack_code"]]
    if (packages / "keyhouse" / "cli").is_dir():
        programs.append(["keyhouse.cli", "version"])
    for program in programs:
        command = [str(environment / "bin" / "python3"), "-I", "-B", "-m", *program]
        ended = subprocess.run(command, check=False)  # noqa: S603 fixed words
        if ended.returncode:
            return ended.returncode
    return 0


def _remove_tools(environment: Path, packages: Path) -> None:
    """Remove pip, setuptools, and all programs in ``bin`` except Python and ``keyhouse``."""
    removed = [packages / name for name in (*_TOOLS, *_SETUPTOOLS)]
    for tool in _TOOLS:
        removed += packages.glob(f"{tool}-*.dist-info")
    for program in environment.glob("bin/*"):
        if not re.fullmatch(r"python[0-9.]*|keyhouse", program.name):
            removed.append(program)
    for path in removed:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _differences(packages: Path, wanted: str, lock: str) -> list[str]:
    """Return a line for each missing, unwanted or unowned package, and for each wrong version."""
    found = {_plain(each.name): each for each in distributions(path=[str(packages)])}
    versions = dict(re.findall(r"^([A-Za-z0-9_.-]+)==([^ ;]+)", lock, re.MULTILINE))
    expected = {_plain(name): version for name, version in versions.items()}
    own = _own(found, wanted)
    lines = [f"{name} is not wanted" for name in found if name not in own | expected.keys()]
    lines += [f"{name} is missing" for name in own if name not in found]
    for name, version in expected.items():
        if name in found and found[name].version != version:
            lines.append(f"{name} is {found[name].version}; the lock states {version}")
    listed = {file.parts[0] for each in found.values() for file in each.files or ()}
    others = sorted(path.name for path in packages.iterdir() if path.name not in listed)
    lines += [f"{name} belongs to no package" for name in others if name != "__pycache__"]
    return lines


def _own(found: dict[str, Distribution], wanted: str) -> set[str]:
    """Return ``wanted`` and its required distributions of Keyhouse, without those of extras."""
    needs = {wanted}
    for requirement in found[wanted].requires or () if wanted in found else ():
        need = re.match(r"keyhouse[a-z-]*(?=[^;]*$)", requirement)
        if need:
            needs.add(need[0])
    return needs


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

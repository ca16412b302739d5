"""The environments of the images, made by the steps of the images: listed code and no other."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import mkdtemp
from typing import Final

import pytest
from releasing.build import differences
from releasing.surroundings import BOTH
from support.distributions import ROOT
from support.images.containerfile import carry_out
from support.installed import build_wheels
from support.pages.trusted_code import Part, installed_libraries, listed, parts_below

pytestmark = pytest.mark.acceptance

_CONTAINER: Final = ROOT / "deploy" / "container"
_PLAIN: Final = _CONTAINER / "Dockerfile"
_SGX: Final = _CONTAINER / "gramine" / "Containerfile"
_TEMPLATE: Final = ROOT / "deploy" / "gramine" / "keyhouse.manifest.template"
_LINT: Final = _TEMPLATE.with_name("lint.py")
_VALUES: Final = {
    "gramine.libos": "/usr/lib/x86_64-linux-gnu/gramine/libsysdb.so",
    "gramine.runtimedir()": "/usr/lib/x86_64-linux-gnu/gramine/runtime/glibc",
    "data_dir": "/data/state",
    "isv_svn": "1",
}


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the wheels of this tree."""
    folder = tmp_path_factory.mktemp("wheels")
    build_wheels(folder)
    return folder


@pytest.fixture(scope="module")
def enclave(tmp_path_factory: pytest.TempPathFactory, wheels: Path) -> Path:
    """The runtime of the coordinator's enclave."""
    _need_debian()
    folder = tmp_path_factory.mktemp("sgx")
    carry_out(_SGX, ["python", "coordinator"], folder, wheels)
    return folder / "opt" / "keyhouse"


def _need_debian() -> None:
    ours = Path(f"/usr/lib/python{sys.version_info[0]}.{sys.version_info[1]}")
    if not (ours.is_dir() and Path("/usr/lib/python3/dist-packages/pip").is_dir()):
        pytest.skip("the Python of the system is not Debian's, with pip and the tests' version")


def _packages(environment: Path) -> Path:
    (found,) = environment.glob("lib/python3*/*-packages")
    return found


def _require_listed_code(environment: Path, program: str) -> None:
    packages = _packages(environment)
    modules, libraries = listed(program)
    assert {each.name: each.digest for each in parts_below(packages)} == modules
    found: list[Part] = installed_libraries(packages)
    assert {each.name: each.digest for each in found} == libraries
    build = [path for path in environment.rglob("*") if "flit" in path.name or path.name == "pip"]
    assert build == []


def test_the_plain_image_serves_from_the_listed_code(tmp_path: Path, wheels: Path) -> None:
    pytest.importorskip("ensurepip")
    carry_out(_PLAIN, ["build"], tmp_path, wheels)
    _require_listed_code(tmp_path / "opt" / "keyhouse", "coordinator")
    programs = {path.name for path in (tmp_path / "opt" / "keyhouse" / "bin").iterdir()}
    assert {name for name in programs if not name.startswith("python")} == set()
    people = tmp_path / "opt" / "keyhouse-commands"
    assert [path for path in people.rglob("*") if "flit" in path.name] == []
    ended = subprocess.run(
        [people / "bin" / "keyhouse", "backup", "--help"], check=True, capture_output=True
    )
    assert b"keyhouse backup" in ended.stdout


def test_the_enclave_of_the_coordinator_has_the_listed_code(enclave: Path) -> None:
    _require_listed_code(enclave, "coordinator")


def test_the_enclave_is_reproducible(enclave: Path, wheels: Path, tmp_path: Path) -> None:
    # At an equal path, because bytecode contains paths.
    place = enclave.parents[1]
    first = place.rename(tmp_path / "first")
    copied = Path(shutil.copytree(wheels, tmp_path / "wheels", copy_function=shutil.copyfile))
    around = BOTH[1]
    carry_out(_SGX, ["python", "coordinator"], place, copied, around.variables, around.umask)
    assert list(differences(first / "opt" / "keyhouse", enclave)) == []
    assert len(list(enclave.rglob("*.pyc"))) > 1000


def test_the_enclave_of_a_workload_has_the_listed_code(tmp_path: Path, wheels: Path) -> None:
    _need_debian()
    carry_out(_SGX, ["python", "workload"], tmp_path, wheels)
    _require_listed_code(tmp_path / "opt" / "keyhouse", "launcher")


def _lint(enclave: Path, folder: Path) -> list[str]:
    # A mount below /dev is refused, and the tests' files may be in /dev/shm.
    place = Path(mkdtemp(dir="/var/tmp")) / "keyhouse"
    place.symlink_to(enclave)
    values = {**_VALUES, "keyhouse_dir": str(place), "arch_libdir": str(place / "lib")}
    text = _TEMPLATE.read_text(encoding="utf-8")
    manifest = folder / "keyhouse.manifest"
    manifest.write_text(re.sub(r"\{\{ (.+?) \}\}", lambda found: values[found[1]], text))
    done = subprocess.run(
        [sys.executable, "-I", str(_LINT), str(manifest)],
        capture_output=True,
        text=True,
        check=False,
    )
    place.unlink()
    place.parent.rmdir()
    assert (done.returncode, done.stderr) == (1 if done.stdout else 0, "")
    shown = done.stdout.replace(str(place), str(enclave))
    return [line.removeprefix(f"{manifest}: ") for line in shown.splitlines()]


def test_the_lint_takes_the_runtime_and_refuses_a_file_more(enclave: Path, tmp_path: Path) -> None:
    assert _lint(enclave, tmp_path) == []
    console = _packages(enclave) / "keyhouse" / "console"
    console.mkdir()
    (console / "page.py").write_text("")
    (refused,) = _lint(enclave, tmp_path)
    shutil.rmtree(console)  # further tests compare this environment
    assert refused.startswith(f"sgx.trusted_files: must not have {console.parent};")
    assert "has page.py" in refused

"""The lint of Gramine manifests refuses each file that no wheel of the coordinator brings."""

import runpy
from base64 import urlsafe_b64encode
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import pytest

_LINT: Final = Path(__file__).parents[2] / "deploy" / "gramine" / "lint.py"
_LOCK: Final = "h2==4.4.1 \\\n    --hash=sha256:00\n"

lint = runpy.run_path(str(_LINT))
foreign_files: Callable[[dict[str, Any], str], list[str]] = lint["foreign_files"]

_FILES: Final = {
    "bin/python3": b"interpreter",
    "lib/libssl.so.3": b"library",
    "lib/python3.11/ssl.py": b"standard",
    "lib/python3.11/__pycache__/ssl.cpython-311.pyc": b"standard",
    "lib/python3.11/lib-dynload/_ssl.cpython-311-x86_64-linux-gnu.so": b"standard",
    "measured/pccs-ca.pem": b"of an argument",
}
_PACKAGES: Final = "lib/python3/dist-packages"


@pytest.fixture
def runtime(tmp_path: Path) -> Path:
    """A small runtime with a wheel of the coordinator and a package of the lock."""
    folder = tmp_path / "keyhouse"
    for name, content in _FILES.items():
        _write(folder / name, content)
    _install(folder, "keyhouse_coordinator-0.1.0", "keyhouse/server/__main__.py")
    _install(folder, "h2-4.4.1", "h2/events.py")
    for cached in ("server/__pycache__/__main__.cpython-311.pyc", "__pycache__/serve.x.packed"):
        _write(folder / _PACKAGES / "keyhouse" / cached, b"made of the files beside it")
    return folder


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def _install(runtime: Path, name: str, file: str, content: bytes = b"code") -> None:
    packages = runtime / _PACKAGES
    digest = urlsafe_b64encode(sha256(content).digest()).rstrip(b"=").decode()
    record = f"{file},sha256={digest},{len(content)}\n{name}.dist-info/RECORD,,\n"
    _write(packages / file, content)
    _write(packages / f"{name}.dist-info" / "RECORD", record.encode())


def _manifest(runtime: Path) -> dict[str, Any]:
    return {
        "libos": {"entrypoint": f"{runtime}/bin/python3"},
        "loader": {
            "entrypoint": {"uri": "file:/gramine/libsysdb.so"},
            "env": {"LD_LIBRARY_PATH": f"/lib:{runtime}/lib"},
        },
        "fs": {"mounts": [{"path": "/lib", "uri": "file:/gramine/runtime"}]},
        "sgx": {
            "trusted_files": [
                "file:/gramine/libsysdb.so",
                "file:/gramine/runtime/",
                f"file:{runtime}/lib/libgcc_s.so.1",
                f"file:{runtime}/",
            ]
        },
    }


def _signed(runtime: Path) -> dict[str, Any]:
    manifest = _manifest(runtime)
    manifest["sgx"]["trusted_files"] = [
        {"uri": f"file:{path}", "sha256": sha256(path.read_bytes()).hexdigest()}
        for path in sorted(runtime.rglob("*"))
        if path.is_file()
    ]
    return manifest


def _refused(runtime: Path) -> list[str]:
    """Return what both the rendered and the signed manifest are refused for."""
    found = foreign_files(_manifest(runtime), _LOCK)
    assert [*dict.fromkeys(found)] == found
    assert sorted(foreign_files(_signed(runtime), _LOCK)) == sorted(found)
    return found


def test_the_files_of_the_coordinator_are_taken(runtime: Path) -> None:
    assert _refused(runtime) == []


@pytest.mark.parametrize(
    "name",
    [
        f"{_PACKAGES}/keyhouse/console/page.py",
        f"{_PACKAGES}/keyhouse/console/__pycache__/page.cpython-311.pyc",
        f"{_PACKAGES}/yaml/__init__.py",
        f"{_PACKAGES}/distutils-precedence.pth",
        "lib/python3.11/site-packages/yaml.py",
        "lib/python3.11/yaml/loader.py",
        "lib/python3.11/sitecustomize.py",
        "lib/other/ssl.py",
        "bin/keyhouse",
        "include/Python.h",
        "measured/module.py",
        "measured/library.so.1",
        "pyvenv.cfg",
    ],
)
def test_another_file_is_refused(runtime: Path, name: str) -> None:
    _write(runtime / name, b"foreign")
    (problem,) = _refused(runtime)
    assert problem.startswith(f"sgx.trusted_files: must not have {runtime}/")
    place = problem.split(" must not have ")[1].partition(";")[0]
    assert Path(place) in {runtime / name, *(runtime / name).parents}


@pytest.mark.parametrize(
    ("package", "stated"),
    [
        ("flit_core-3.12.0", "no version of it"),
        ("keyhouse-0.1.0", "no version of it"),
        ("h2-4.0.0", "4.4.1"),
    ],
)
def test_a_package_that_is_not_of_the_lock_is_refused(
    runtime: Path, package: str, stated: str
) -> None:
    _install(runtime, package, "another/code.py")
    problems = _refused(runtime)
    name, version = package.split("-")
    assert problems[0] == (
        f"sgx.trusted_files: must not have the package {name} {version}; the lock states {stated}"
    )
    assert {line.partition(";")[0].rpartition("/")[2] for line in problems[1:]} == {
        "another",
        f"{package}.dist-info",
    }


def test_a_changed_file_is_refused_once_digests_are_signed(runtime: Path) -> None:
    changed = runtime / _PACKAGES / "h2" / "events.py"
    changed.write_bytes(b"changed")
    assert foreign_files(_manifest(runtime), _LOCK) == []
    (problem,) = foreign_files(_signed(runtime), _LOCK)
    assert problem == (
        f"sgx.trusted_files: must not have {changed} with the digest"
        f" {sha256(b'changed').hexdigest()}; its package states {sha256(b'code').hexdigest()}"
    )


def test_files_outside_and_missing_files_are_refused(runtime: Path, tmp_path: Path) -> None:
    (tmp_path / "beside").touch()
    manifest = _manifest(runtime)
    manifest["sgx"]["trusted_files"] += [f"file:{tmp_path}/beside", f"file:{tmp_path}/missing/"]
    outside, missing = foreign_files(manifest, _LOCK)
    assert outside.endswith(f" {tmp_path}/beside; it is outside of the runtime {runtime}")
    assert missing.endswith(f" {tmp_path}/missing; it does not exist on this machine")


def test_the_lint_needs_the_lock(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main: Callable[[list[str]], int] = lint["main"]
    assert main(["--lock", str(tmp_path / "missing"), "keyhouse.manifest"]) == 2
    assert "name the lock of the coordinator: --lock FILE" in capsys.readouterr().err
    assert main(["--lock"]) == 2
    assert lint["_LOCK"].is_file()

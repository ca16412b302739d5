"""What ``gramine-sgx-sign`` measures, without hardware, is what `keyhouse package-info` tells."""

import json
import runpy
import subprocess
import tomllib
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from support.process.command import run
from support.process.gramine import TEMPLATE, libraries, render, require_gramine, template

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(600)]

lint = runpy.run_path(str(TEMPLATE.with_name("lint.py")))


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file with a key to sign enclaves, which this run throws away."""
    require_gramine("gramine-sgx-sign", "gramine-sgx-sigstruct-view")
    path = tmp_path_factory.mktemp("signing") / "key.pem"
    private = rsa.generate_private_key(public_exponent=3, key_size=3072)
    form = (Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    path.write_bytes(private.private_bytes(*form))
    return path


def _called(*words: str | Path, folder: Path) -> str:
    done = subprocess.run(
        [str(word) for word in words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _signed(folder: Path, key: Path, runtime: Path, version: int) -> Path:
    """Render the shipped template in ``folder``, check it and sign it; return the signature."""
    values = {
        "keyhouse_dir": runtime,
        "arch_libdir": libraries(runtime),
        "data_dir": runtime.parent / "data",
        "isv_svn": version,
    }
    manifest = render(folder, template(), values)
    signed = folder / "keyhouse.manifest.sgx"
    words = ("--key", key, "--manifest", manifest, "--output", signed)
    _called("gramine-sgx-sign", *words, "--date", "2026-11-22", folder=folder)
    for each in (manifest, signed):
        _require_rules(each, temporary_is_device=runtime.is_relative_to("/dev"))
    return folder / "keyhouse.sig"


def _require_rules(manifest: Path, *, temporary_is_device: bool) -> None:
    """Lint ``manifest``; in tests only, the runtime may be below ``/dev/shm``."""
    problems: list[str] = lint["problems"](tomllib.loads(manifest.read_text(encoding="utf-8")))
    allowed = "must not hide /dev;" if temporary_is_device else "\n"
    assert [each for each in problems if allowed not in each] == []


def _package(signature: Path) -> dict[str, object]:
    ended = run("package-info", str(signature), "--json")
    assert ended.code == 0, ended.err
    found = json.loads(ended.out)
    assert isinstance(found, dict)
    return found


def test_the_measurement_is_that_of_package_info_and_the_same_each_time(
    tmp_path: Path, runtime: Path, key: Path
) -> None:
    (runtime.parent / "data").mkdir(exist_ok=True)
    first, again, later = (
        _signed(tmp_path / name, key, runtime, version)
        for name, version in (("first", 1), ("again", 1), ("later", 2))
    )
    view = ("gramine-sgx-sigstruct-view", "--output-format", "json", first)
    gramine = json.loads(_called(*view, folder=tmp_path))
    package = _package(first)
    assert package["UniqueID"] == gramine["mr_enclave"]
    assert package["SignerID"] == gramine["mr_signer"]
    assert (package["ProductID"], package["SecurityVersion"]) == (1, 1)
    assert _package(again) == package
    other = _package(later)
    assert other["SecurityVersion"] == 2
    assert other["UniqueID"] != package["UniqueID"]
    assert other["SignerID"] == package["SignerID"]

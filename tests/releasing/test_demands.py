"""A named option whose means are missing ends a release before its first build."""

import subprocess
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from releasing.demands import Demands, require_enclave_key
from releasing.measurement import Enclave
from releasing.sigstore import Sigstore
from support.distributions import ROOT

_PYTHON = (sys.version_info[0], sys.version_info[1])
_NOTHING = Demands(None, None, Enclave(None, 1), "", _PYTHON)
_DIGEST = "0" * 64


def _program(folder: Path, name: str, lines: str = "exit 0\n") -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{lines}", encoding="utf-8")
    (folder / name).chmod(0o755)


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder on PATH: empty."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def test_no_option_demands_nothing(programs: Path) -> None:
    assert list(programs.iterdir()) == []
    _NOTHING.require()


def test_sigstore_demands_its_program(programs: Path) -> None:
    demands = _NOTHING._replace(sigstore=Sigstore("releases@example.com", "https://id.example"))
    with pytest.raises(ValueError, match=r"--sigstore .*program sigstore"):
        demands.require()
    _program(programs, "sigstore")
    demands.require()


def test_an_enclave_key_demands_the_tools_of_gramine(programs: Path, tmp_path: Path) -> None:
    assert list(programs.iterdir()) == []
    demands = _NOTHING._replace(enclave=Enclave(tmp_path / "key.pem", 1))
    wanted = "--enclave-key cannot be met: not installed, of Gramine: gramine-manifest, gramine-sgx"
    with pytest.raises(ValueError, match=wanted):
        demands.require()


def _enclave_key(file: Path, bits: int, exponent: int) -> None:
    key = rsa.generate_private_key(exponent, bits)
    file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))


@pytest.mark.parametrize(("bits", "exponent"), [(2048, 3), (3072, 65537)])
def test_an_enclave_key_of_another_kind_is_refused(
    bits: int, exponent: int, tmp_path: Path
) -> None:
    _enclave_key(tmp_path / "key.pem", bits, exponent)
    with pytest.raises(ValueError, match=r"3072 bits .*exponent 3"):
        require_enclave_key(tmp_path / "key.pem")
    _enclave_key(tmp_path / "key.pem", 3072, 3)
    require_enclave_key(tmp_path / "key.pem")


@pytest.mark.parametrize("version", [0, -1, 0x10000])
def test_a_security_version_outside_of_its_field_is_refused(version: int) -> None:
    with pytest.raises(ValueError, match=f"--isv-svn .*{version}.* 1 to 65535"):
        _NOTHING._replace(enclave=Enclave(None, version)).require()


def test_an_image_demands_buildah_and_a_digest(programs: Path) -> None:
    demands = _NOTHING._replace(python_image=f"localhost/base@sha256:{_DIGEST}")
    with pytest.raises(ValueError, match=r"--python-image .*buildah"):
        demands.require()
    _program(programs, "buildah")
    demands.require()
    for name in ("localhost/base:tag", "localhost/base@sha256:00", f"@sha256:{_DIGEST}"):
        with pytest.raises(ValueError, match=r"--python-image .*NAME@sha256:DIGEST"):
            demands._replace(python_image=name).require()


def test_the_program_refuses_before_it_makes_a_folder(tmp_path: Path) -> None:
    output = tmp_path / "output"
    words = ["9.8.7", "--dry-run", "--tools", str(tmp_path), "--output", str(output)]
    ended = subprocess.run(
        [sys.executable, "-B", "-m", "releasing", *words, "--isv-svn", "0"],
        env={"PYTHONPATH": str(ROOT / "tools"), "PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == "error: --isv-svn is 0; use 1 to 65535\n"
    assert not output.exists()


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (
            ["--sigstore", "releases@example.com"],
            "--sigstore and --sigstore-issuer belong together",
        ),
        ([], "the release has no signature: name --key, or use --sigstore"),
    ],
)
def test_a_release_without_a_complete_signature_does_not_begin(
    words: list[str], fault: str, tmp_path: Path
) -> None:
    ended = subprocess.run(
        [sys.executable, "-B", "-m", "releasing", "9.8.7", "--tools", tmp_path, *words],
        env={"PYTHONPATH": str(ROOT / "tools"), "PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 2
    assert fault in ended.stderr

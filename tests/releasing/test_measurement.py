"""The measurement is that of the signed enclave; without an enclave, the file states the reason."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from releasing import measurement
from releasing.build import Build, Inputs
from releasing.measurement import Enclave, Signed, sign_enclave, write_measurement
from releasing.surroundings import BOTH
from support.distributions import ROOT
from support.host.sigstruct import UNIQUE_ID, sigstruct

from keyhouse.cli.attest.package_info import SigstructUnusableError


@pytest.fixture
def build(tmp_path: Path) -> Build:
    """A build of this tree with two outputs."""
    folder = tmp_path / "outputs"
    folder.mkdir()
    (folder / "keyhouse-9.8.7-gramine-runtime.tar.gz").write_bytes(b"runtime")
    (folder / "keyhouse_launcher-9.8.7-py3-none-any.whl").write_bytes(b"not in the enclave")
    return Build(ROOT, folder, BOTH[0], Inputs("9.8.7", 1_900_000_000, Path("python")))


def _written(build: Build) -> Any:
    return json.loads((build.folder / "keyhouse-9.8.7.measurement.json").read_text("utf-8"))


def test_the_attestation_has_the_identity_of_the_signed_enclave(
    build: Build, tmp_path: Path
) -> None:
    signature, loader = tmp_path / "keyhouse.sig", tmp_path / "libpal.so"
    signature.write_bytes(sigstruct())
    loader.write_bytes(b"loader")
    signed = Signed(signature, "1.9", loader)
    assert write_measurement(build, "c" * 40, Enclave(None, 5), signed, "") == []
    written = _written(build)
    assert written["subject"] == [
        {
            "name": "keyhouse-9.8.7-gramine-runtime.tar.gz",
            "digest": {"sha256": hashlib.sha256(b"runtime").hexdigest()},
        }
    ]
    predicate = written["predicate"]
    assert predicate["enclave"] == {
        "UniqueID": UNIQUE_ID.hex(),
        "SignerID": hashlib.sha256(sigstruct()[128:512]).hexdigest(),
        "ProductID": 7,
        "SecurityVersion": 258,
        "Debug": False,
    }
    assert "enclaveMissing" not in predicate
    assert '"--platform", "gramine"' in predicate["settings"]["loader.argv"]
    assert predicate["settings"]["sgx.debug"] == "false"
    assert predicate["variables"]["isv_svn"] == "5"
    assert predicate["gramine"] == {
        "version": "1.9",
        "loader": str(loader),
        "loaderSha256": hashlib.sha256(b"loader").hexdigest(),
    }


def test_a_forged_enclave_has_no_measurement(build: Build, tmp_path: Path) -> None:
    forged = bytearray(sigstruct())
    forged[960] ^= 1
    signature = tmp_path / "keyhouse.sig"
    signature.write_bytes(forged)
    signed = Signed(signature, "1.9", signature)
    with pytest.raises(SigstructUnusableError):
        write_measurement(build, "c" * 40, Enclave(None, 1), signed, "")
    assert not list(build.folder.glob("*.measurement.json"))


def test_a_missing_measurement_is_stated_and_never_invented(
    build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measurement, "_TOOLS", ("no-such-program-of-gramine",))
    signed, reason = sign_enclave(build, build.folder, Enclave(None, 1))
    assert signed is None
    (missing,) = write_measurement(build, "c" * 40, Enclave(None, 1), signed, reason)
    assert missing.reason == "not installed, of Gramine: no-such-program-of-gramine"
    predicate = _written(build)["predicate"]
    assert predicate["enclave"] is None
    assert predicate["enclaveMissing"] == missing.reason


def test_a_runtime_without_a_signing_key_is_not_measured(
    build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measurement, "_TOOLS", ())
    assert sign_enclave(build, None, Enclave(None, 1)) == (None, "there is no runtime to measure")
    signed, reason = sign_enclave(build, build.folder, Enclave(None, 1))
    assert (signed, reason) == (None, "--enclave-key names no signing key")

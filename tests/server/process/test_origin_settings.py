"""The measured settings about the origin of a root, and the rule that they make."""

import hashlib
from pathlib import Path

import msgspec
import pytest

from keyhouse.attestation import ExpectedIdentity
from keyhouse.attestation.origin.rule import AcceptedCode, OriginRule
from keyhouse.base.process.flags import SettingRefusedError
from keyhouse.server.process.replicas import measured_settings
from keyhouse.server.process.settings import read_settings
from keyhouse.wire.kinds.tdx import TdxIdentity
from keyhouse_simulation import open_platform
from keyhouse_simulation.attestation_file import write_expected_identity

TD_IDENTITY = TdxIdentity(mrtd="ab" * 48)
UNIQUE = "ab" * 32
CLAIM = ("--claim-fingerprint", "cd" * 32)


def rule(*arguments: str) -> OriginRule:
    return read_settings(arguments, {}).origin


def test_own_code_and_signer_are_accepted_by_default_and_own_code_alone_with_a_claim() -> None:
    assert rule() == OriginRule(AcceptedCode(own=True, signer=True))
    assert rule(*CLAIM) == OriginRule(AcceptedCode(own=True, signer=False))
    assert rule(*CLAIM, "--predecessors", "own,signer").code == AcceptedCode()


def test_predecessors_are_listed(tmp_path: Path) -> None:
    file = tmp_path / "vm.json"
    file.write_bytes(write_expected_identity(ExpectedIdentity(tdx=TD_IDENTITY)))
    found = rule("--predecessors", f"UniqueID:{UNIQUE.upper()},signer:7,file:{file}").code
    assert found == AcceptedCode(
        own=False, signer=True, least_svn=7, unique_ids=(UNIQUE,), vms=(TD_IDENTITY,)
    )


@pytest.mark.parametrize(
    "value",
    ["all", "own,", "Own", "signer:", "signer:01", "signer:100000", "UniqueID:ab", "UniqueID:",
     "file:", "own;signer", f"SignerID:{UNIQUE}"],
)  # fmt: skip
def test_predecessors_that_cannot_be_read_are_refused(value: str) -> None:
    with pytest.raises(SettingRefusedError, match="--predecessors"):
        rule("--predecessors", value)


def test_a_file_of_predecessors_names_a_confidential_vm(tmp_path: Path) -> None:
    file = tmp_path / "enclave.json"
    with pytest.raises(SettingRefusedError, match=f"{file}: the file cannot be read"):
        rule("--predecessors", f"file:{file}")
    file.write_bytes(write_expected_identity(ExpectedIdentity(unique_id=bytes(31) + b"\1")))
    with pytest.raises(SettingRefusedError, match=f"{file}.*UniqueID:HEX"):
        rule("--predecessors", f"file:{file}")
    file.write_bytes(b'{"TDX": {"MRTD": "ab"}}')
    with pytest.raises(SettingRefusedError, match=rf"--predecessors .*{file}.*TDX\.MRTD"):
        rule("--predecessors", f"file:{file}")


def test_statuses_platforms_and_an_adopted_root_are_listed() -> None:
    assert rule("--origin-tcb", "OutOfDate,UpToDate").statuses == ("OutOfDate", "UpToDate")
    current = rule("--origin-tcb", "current")
    assert (current.statuses, current.current) == (("UpToDate",), True)
    assert rule("--origin-platforms", "AB" * 16).platforms == ("ab" * 16,)
    assert rule("--adopt-root", UNIQUE.upper()).adopted == UNIQUE
    for flag, value in (
        ("--origin-tcb", "Revoked"),
        ("--origin-tcb", "uptodate"),
        ("--origin-platforms", "ab"),
        ("--adopt-root", "ab"),
    ):
        with pytest.raises(SettingRefusedError, match=flag):
            rule(flag, value)


def test_an_adopted_root_excludes_a_claim() -> None:
    with pytest.raises(SettingRefusedError, match=r"--adopt-root .*--claim-fingerprint"):
        rule(*CLAIM, "--adopt-root", UNIQUE)


def test_asks_have_the_hash_of_the_settings_that_older_versions_know(tmp_path: Path) -> None:
    """Else no coordinator of a newer version is given the data key in a rolling upgrade."""
    platform = open_platform(tmp_path / "machine")
    known = {
        "platform": platform.kind,
        "curve": "P-256",
        "confirm_clock": False,
        "claim_fingerprint": "",
        "no_new_manifest_in_recovery": False,
        "replace_lost_state": False,
        "begin_new_log": "",
        "no_cancel_by_removed": False,
        "pccs": "",
        "pccs_ca": None,
        "marble_certificate_days": None,
    }
    encoded = msgspec.json.encode(known, order="sorted")
    wanted = hashlib.sha256(b"keyhouse measured settings v1\0" + encoded).digest()
    for arguments in ([], ["--predecessors", "own"], ["--adopt-root", UNIQUE]):
        assert measured_settings(read_settings(arguments, {}), platform) == wanted

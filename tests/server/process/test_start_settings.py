"""What a start is told about its first manifest, and about checking only."""

import pytest

from keyhouse.server.process.flags import SettingRefusedError
from keyhouse.server.process.settings import read_settings


def test_a_recovery_file_without_a_startup_manifest_is_named_in_a_note() -> None:
    (note,) = read_settings(["--startup-recovery-file", "f"], {}).notes

    assert "--startup-recovery-file has no effect without --startup-manifest" in note


@pytest.mark.parametrize(
    "text",
    ["1", "00" * 31, "00" * 33, "0x" + "00" * 31, "gg" * 32, "00" * 32 + "\n", "\u0660" * 64],
)
def test_what_is_no_fingerprint_is_refused(text: str) -> None:
    with pytest.raises(SettingRefusedError, match="--claim-fingerprint is not a fingerprint"):
        read_settings(["--claim-fingerprint", text], {})


def test_a_fingerprint_is_taken_in_any_case_of_letters() -> None:
    found = read_settings(["--claim-fingerprint", "AbcdeF01" * 8], {})

    assert found.claim_fingerprint == "abcdef01" * 8


def test_an_empty_claim_is_refused_and_does_not_mean_any_manifest() -> None:
    with pytest.raises(SettingRefusedError, match="--claim-fingerprint is empty"):
        read_settings(["--claim-fingerprint", ""], {})


def test_json_without_a_check_is_refused() -> None:
    with pytest.raises(SettingRefusedError, match="--json has no effect"):
        read_settings(["--json"], {})
    found = read_settings(["--check-config", "--json"], {})
    assert (found.check_config, found.json) == (True, True)

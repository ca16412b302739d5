"""``--platform auto`` finds hardware or says what it looked for."""

from pathlib import Path

import pytest

from keyhouse.attestation import PlatformMissingError
from keyhouse.attestation.platforms.files import PlatformUnusableError
from keyhouse.attestation.platforms.find import platform_name

GRAMINE = Path("/dev/attestation")
SNP = Path("/dev/sev-guest")
TDX = Path("/dev/tdx_guest")
REPORTS = Path("/sys/kernel/config/tsm/report")


@pytest.mark.parametrize(
    ("present", "name"),
    [
        ({GRAMINE}, "gramine"),
        ({TDX, REPORTS}, "tdx"),
        ({SNP, REPORTS}, "snp"),
        ({GRAMINE, TDX, REPORTS}, "gramine"),
    ],
)
def test_what_the_machine_shows_is_chosen(present: set[Path], name: str) -> None:
    assert platform_name("auto", present.__contains__) == name


def test_where_nothing_is_the_error_names_every_place() -> None:
    with pytest.raises(PlatformMissingError) as caught:
        platform_name("auto", lambda _: False)
    assert all(str(sign) in caught.value.message for sign in (GRAMINE, SNP, TDX))


def test_reports_of_an_unknown_kind_are_not_treated_as_those_of_tdx() -> None:
    with pytest.raises(PlatformUnusableError) as caught:
        platform_name("auto", {REPORTS}.__contains__)
    assert caught.value.message == (
        "the platform cannot be used: /sys/kernel/config/tsm/report exists, but neither"
        " /dev/sev-guest (snp) nor /dev/tdx_guest (tdx) exists"
    )
    assert "load the driver sev-guest or tdx-guest" in caught.value.hint
    assert "name the platform" in caught.value.hint


@pytest.mark.parametrize("name", ["gramine", "tdx", "snp", "simulation"])
def test_a_name_is_taken_as_it_is(name: str) -> None:
    assert platform_name(name, {GRAMINE, TDX, REPORTS}.__contains__) == name
    assert platform_name(name, lambda _: False) == name

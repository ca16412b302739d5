"""``--platform auto`` finds hardware or says what it looked for."""

from pathlib import Path

import pytest

from keyhouse.attestation import PlatformMissingError
from keyhouse.attestation.platforms.find import platform_name

GRAMINE = Path("/dev/attestation")
TDX = Path("/sys/kernel/config/tsm/report")


@pytest.mark.parametrize(
    ("present", "name"), [({GRAMINE}, "gramine"), ({TDX}, "tdx"), ({GRAMINE, TDX}, "gramine")]
)
def test_what_the_machine_shows_is_chosen(present: set[Path], name: str) -> None:
    assert platform_name("auto", present.__contains__) == name


def test_where_nothing_is_the_error_names_every_place() -> None:
    with pytest.raises(PlatformMissingError) as caught:
        platform_name("auto", lambda _: False)
    assert str(GRAMINE) in caught.value.message
    assert str(TDX) in caught.value.message


@pytest.mark.parametrize("name", ["gramine", "tdx", "snp", "simulation"])
def test_a_name_is_taken_as_it_is(name: str) -> None:
    assert platform_name(name, {GRAMINE, TDX}.__contains__) == name
    assert platform_name(name, lambda _: False) == name

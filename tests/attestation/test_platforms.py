"""A name selects exactly its platform, or an error names the next step."""

from pathlib import Path

import pytest

from keyhouse.attestation import Measurements, PlatformMissingError, open_platform
from keyhouse.attestation.platforms.find import open_for_quotes


def test_the_simulation_is_found_by_its_entry_point_in_a_folder_of_its_own(tmp_path: Path) -> None:
    platform = open_platform("simulation", tmp_path)
    assert platform.kind == "simulation"
    assert platform.root_ca == open_platform("simulation", tmp_path).root_ca
    assert (tmp_path / "simulation" / "root.pem").is_file()


@pytest.mark.parametrize("name", ["", "Simulation", "sim", "sgx", "../simulation", "keyhouse"])
def test_unknown_names_are_refused_with_the_known_ones(tmp_path: Path, name: str) -> None:
    with pytest.raises(PlatformMissingError, match="gramine, tdx, snp, simulation"):
        open_platform(name, tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "place"), [("gramine", "/dev/attestation"), ("tdx", "/sys/kernel/config/tsm/report")]
)
def test_hardware_that_is_not_here_is_named_and_never_replaced(
    tmp_path: Path, name: str, place: str
) -> None:
    with pytest.raises(PlatformMissingError, match=f"{name} .*{place}"):
        open_platform(name, tmp_path, exists=lambda _: False)
    assert list(tmp_path.iterdir()) == []


def test_the_environment_chooses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("OE_SIMULATION", "KEYHOUSE_PLATFORM", "EDG_COORDINATOR_DEV_MODE"):
        monkeypatch.setenv(variable, "1")
    with pytest.raises(PlatformMissingError, match="/dev/attestation"):
        open_platform("gramine", tmp_path, exists=lambda _: False)


@pytest.mark.parametrize("name", ["gramine", "tdx"])
def test_hardware_is_never_told_who_it_measures(tmp_path: Path, name: str) -> None:
    who = Measurements(bytes(32), bytes(32), 1, 1)
    with pytest.raises(PlatformMissingError, match="identity"):
        open_for_quotes(name, tmp_path, simulated=who, exists=lambda _: True)

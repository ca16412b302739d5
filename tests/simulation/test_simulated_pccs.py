"""The PCCS that can be tried out from the command line: each of its faults is one."""

from pathlib import Path

import pytest
from support.process.server import PATIENCE

from keyhouse.attestation import (
    Collateral,
    CollateralRefusedError,
    CollateralUnavailableError,
    read_collateral,
    read_facts,
    require_sound,
)
from keyhouse.attestation.collateral.pccs import Pccs
from keyhouse.attestation.errors import CollateralUnusableError
from keyhouse_simulation import SimulatedPlatform, open_platform
from keyhouse_simulation.pccs import PccsFault, from_arguments, main


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("machine") / "simulation"


@pytest.fixture(scope="module")
def machine(folder: Path) -> SimulatedPlatform:
    return open_platform(folder)


async def fetched(folder: Path, *words: str, patience: float = PATIENCE) -> Collateral:
    """Return what a PCCS that was started with ``words`` gives for the machine in ``folder``."""
    kind = read_facts(read_collateral((folder / "collateral.json").read_bytes())).kind
    server, _ = from_arguments([str(folder), "--port", "0", *words])
    with server:
        async with Pccs(server.url, server.ca_pem, patience=patience) as pccs:
            return await pccs.fetch(kind)


async def test_it_serves_the_collateral_of_the_machine(
    folder: Path, machine: SimulatedPlatform
) -> None:
    assert await fetched(folder) == machine.collateral


async def test_what_is_stale_is_true_and_older(folder: Path, machine: SimulatedPlatform) -> None:
    stale = await fetched(folder, "--fault", "stale")
    now = machine.collateral
    assert read_facts(stale).older_than(read_facts(now))
    require_sound(stale, machine.root_ca, read_facts(now).issued)


async def test_another_vendors_is_not_true(folder: Path, machine: SimulatedPlatform) -> None:
    foreign = await fetched(folder, "--fault", "wrong-ca=1.0")
    with pytest.raises(CollateralUnusableError, match="pinned root"):
        require_sound(foreign, machine.root_ca, read_facts(machine.collateral).issued)


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (PccsFault.SLOW, CollateralUnavailableError),
        (PccsFault.NOT_FOUND, CollateralUnavailableError),
        (PccsFault.GARBAGE, CollateralRefusedError),
    ],
)
@pytest.mark.usefixtures("machine")
async def test_a_pccs_with_a_fault_gives_nothing(
    folder: Path, fault: PccsFault, error: type[Exception]
) -> None:
    with pytest.raises(error):
        await fetched(
            folder, "--fault", fault, patience=0.5 if fault is PccsFault.SLOW else PATIENCE
        )


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--fault", "tired"), "is not one of slow, 404, stale, garbage, wrong-ca"),
        (("--fault", "slow=often"), "or has no number"),
        (("--fault", "slow=1.5"), "probability of 0 to 1"),
        (("--fault", "slow=nan"), "probability of 0 to 1"),
        (("--port", "65536"), "is not one of 0 to 65535"),
        (("--port", "https"), "--port"),
        ((), "is not the folder of a simulated machine"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], problem: str
) -> None:
    with pytest.raises(SystemExit):
        from_arguments([str(tmp_path), *words])
    assert problem in capsys.readouterr().err


@pytest.mark.usefixtures("machine")
def test_a_file_that_cannot_be_written_ends_it_with_a_word(folder: Path) -> None:
    with pytest.raises(SystemExit, match="No such file or directory"):
        main([str(folder), "--port", "0", "--ca", str(folder / "missing" / "ca.pem")])

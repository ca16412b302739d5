"""`keyhouse status`: verify a coordinator, then say how it is."""

from typing import Annotated

import typer

from keyhouse.cli.memory_option import MemoryOption
from keyhouse.cli.pccs_options import PccsCaFile, PccsUrl
from keyhouse.cli.talk import show_json, show_rows, speaks
from keyhouse.cli.trust_options import (
    AttestationFile,
    CollateralFile,
    HostArgument,
    SimulationRoot,
    trusted,
)
from keyhouse.client import Coordinator

__all__ = ["status"]


@speaks
def status(
    host: HostArgument,
    attestation: AttestationFile,
    collateral: CollateralFile = None,
    simulation_root: SimulationRoot = None,
    pccs: PccsUrl = "",
    pccs_ca: PccsCaFile = None,
    memory: MemoryOption = "",
    *,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object")] = False,
) -> None:
    """Verify the coordinator's quote, then print its state.

    Example: keyhouse status localhost:4433 --attestation keyhouse-data/simulation/attestation.json
    --simulation-root keyhouse-data/simulation/root.pem
    """
    proven = trusted(
        host, attestation, collateral, simulation_root, memory, pccs=pccs, pccs_ca=pccs_ca
    )
    with Coordinator(proven) as coordinator:
        found = coordinator.status()
    verdict = proven.verdict
    if as_json:
        show_json(
            {
                "code": found.code,
                "message": found.message,
                "uniqueId": verdict.mrenclave.hex(),
                "signerId": verdict.mrsigner.hex(),
                "tcbStatus": str(verdict.tcb_status),
                "advisories": list(verdict.advisories),
                "simulation": simulation_root is not None,
            }
        )
        return
    rows = {
        "state": f"{found.code}  {found.message}",
        "UniqueID": verdict.mrenclave.hex(),
        "SignerID": verdict.mrsigner.hex(),
        "TCB": f"{verdict.tcb_status}  {', '.join(verdict.advisories)}".rstrip(),
    }
    if simulation_root is not None:
        rows["trust"] = "SIMULATION: proves nothing about hardware"
    show_rows(rows)

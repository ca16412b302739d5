"""`keyhouse manifest set`: give a coordinator its first manifest."""

from pathlib import Path
from typing import Annotated

import typer

from keyhouse.cli.manifest_file import read_manifest
from keyhouse.cli.memory_option import MemoryOption
from keyhouse.cli.pccs_options import PccsCaFile, PccsUrl
from keyhouse.cli.recovery_place import RecoveryOption, recovery_place
from keyhouse.cli.talk import show_json, show_rows, speaks
from keyhouse.cli.trust_options import (
    AttestationFile,
    CollateralFile,
    HostArgument,
    SimulationRoot,
    trusted,
)
from keyhouse.client import Coordinator
from keyhouse.manifest import fingerprint

__all__ = ["set_manifest"]


@speaks
def set_manifest(
    file: Annotated[Path, typer.Argument(help="manifest file, or - for standard input")],
    host: HostArgument,
    attestation: AttestationFile,
    collateral: CollateralFile = None,
    simulation_root: SimulationRoot = None,
    pccs: PccsUrl = "",
    pccs_ca: PccsCaFile = None,
    memory: MemoryOption = "",
    recoverydata: RecoveryOption = "",
    *,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object")] = False,
) -> None:
    """Verify the coordinator, set its first manifest, and read it back.

    Example: keyhouse manifest set manifest.json localhost:4433 --attestation attestation.json
    --simulation-root root.pem -r recovery.json
    """
    raw = read_manifest(str(file))
    proven = trusted(
        host, attestation, collateral, simulation_root, memory, pccs=pccs, pccs_ca=pccs_ca
    )
    with recovery_place(recoverydata, raw) as place, Coordinator(proven) as coordinator:
        shares = coordinator.set_manifest(raw, place.keep)
        path = place.path
    if recoverydata == "-" and shares:
        return  # standard output holds the secrets alone
    if as_json:
        show_json(
            {"fingerprint": fingerprint(raw), "recoveryKeys": sorted(shares), "recoveryFile": path}
        )
        return
    rows = {"state": "the manifest is in force", "fingerprint": fingerprint(raw)}
    if path is not None:
        rows["recovery"] = f"{path}  for {', '.join(sorted(shares))}"
    show_rows(rows)

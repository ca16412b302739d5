"""`keyhouse status`: verify a coordinator, then say how it is."""

from typing import TYPE_CHECKING, Final

from keyhouse.base.errors import InvalidError
from keyhouse.cli.options.connect import trusted
from keyhouse.cli.options.target import Target
from keyhouse.cli.output.show import show_json, show_rows
from keyhouse.cli.parser import AsJson, command
from keyhouse.wire.vm_identity import kind_of_vm

if TYPE_CHECKING:
    from keyhouse.attestation import Verdict
    from keyhouse.client import Coordinator

RUNNING: Final = 3
"""The number of the phase in which a manifest is in force."""


@command
def status(target: Target, *, as_json: AsJson = False) -> None:
    """Verify the coordinator's quote, then print its state.

    Example: keyhouse status localhost:4433 --attestation keyhouse-data/simulation/attestation.json
    --simulation-root keyhouse-data/simulation/root.pem
    """
    from keyhouse.client import Coordinator

    simulated = target.settled().simulation_root is not None
    proven = trusted(target)
    with Coordinator(proven, timeout=target.timeouts()) as coordinator:
        found = coordinator.status()
        note = rollback_note(coordinator) if found.code == RUNNING else ""
    verdict = proven.verdict
    if as_json:
        show_json(
            {
                "code": found.code,
                "message": found.message,
                "notProtected": note,
                "uniqueId": verdict.mrenclave.hex(),
                "signerId": verdict.mrsigner.hex(),
                "tcbStatus": str(verdict.tcb_status),
                "advisories": list(verdict.advisories),
                "simulation": simulated,
                **({} if verdict.vm is None else {kind_of_vm(verdict.vm): verdict.vm}),
            }
        )
        return
    rows = {
        "state": f"{found.code}  {found.message}",
        **({"rollback": note} if note else {}),
        **_identity(verdict),
        "TCB": f"{verdict.tcb_status}  {', '.join(verdict.advisories)}".rstrip(),
    }
    if simulated:
        rows["trust"] = "SIMULATION: proves nothing about hardware"
    show_rows(rows, wraps=True)


def rollback_note(coordinator: "Coordinator") -> str:
    """Return what its manifest does not protect from an operator; empty: it protects from that."""
    from keyhouse.manifest import decode

    try:
        return decode(coordinator.manifest().manifest).config.rollback_note
    except InvalidError:  # of a later version
        return "not known: this version cannot read the manifest"


def _identity(verdict: "Verdict") -> dict[str, str]:
    from keyhouse.cli.output.measurements import rows_of_vm

    if verdict.vm is not None:
        return rows_of_vm(verdict.vm)
    return {"UniqueID": verdict.mrenclave.hex(), "SignerID": verdict.mrsigner.hex()}

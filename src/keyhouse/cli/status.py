"""`keyhouse status`: verify a coordinator, then print its state."""

from typing import TYPE_CHECKING, Any, NamedTuple

from keyhouse.cli.options.connect import verify_target
from keyhouse.cli.options.target import Target
from keyhouse.cli.output.root_line import (
    access_periods,
    changes_since,
    check_rows,
    checks_json,
    line_rows,
)
from keyhouse.cli.output.show import show_json, show_rows
from keyhouse.cli.parser import AsJson, command
from keyhouse.cli.protection import RUNNING, Protection, protection_under

if TYPE_CHECKING:
    from keyhouse.attestation import Verdict
    from keyhouse.client import Status, TrustedCoordinator


class VerifiedStatus(NamedTuple):
    """The results of the requests of `keyhouse status`. ``proven``: the verified coordinator."""

    proven: "TrustedCoordinator"
    status: "Status"
    manifest: bytes = b""  # the manifest in force, or empty
    protection: Protection = Protection()
    changes: tuple[str, ...] = ()  # about manifests that are new for the memory


@command
def status(target: Target, *, as_json: AsJson = False) -> None:
    """Verify the coordinator's quote, then print its state.

    Example: keyhouse status localhost:4433 --attestation keyhouse-data/simulation/attestation.json
    --simulation-root keyhouse-data/simulation/root.pem

    The output lists the checks, with those that the command could not make. It also states whether
    witnesses prevent a rollback. If witnesses prevent a rollback, the output names the witnesses
    that have cosigned, the last cosignature and the rest of the lease. With --json and a manifest
    in force, the field notProtected states the remaining danger of a rollback, and the field
    witnesses has the cosignatures. A quote does not show the first manifest of the deployment: pass
    --first-manifest to compare this manifest.
    """
    simulated = target.resolve().simulation_root is not None
    answers = _request_status(target) or _request_status(
        target
    )  # an update between two answers causes None
    if answers is None:
        from keyhouse.client import TrustError

        raise TrustError(
            "the manifest in force is not the last manifest in the line of the root",
            hint="try again; if the error stays, do not trust the coordinator",
        )
    if as_json:
        show_json(_object(answers, simulated=simulated))
        return
    line = answers.proven.line
    rows = {
        "state": f"{answers.status.code}  {answers.status.message}",
        **answers.protection.rows(),
        **_identity(answers.proven.verdict),
        "TCB": _tcb(answers.proven.verdict),
    }
    if simulated:
        rows["trust"] = "SIMULATION: proves nothing about hardware"
    show_rows(rows, wraps=True)
    if line is not None:
        changes = {"new": "; ".join(answers.changes)} if answers.changes else {}
        show_rows({**line_rows(line, access_periods(answers.manifest)), **changes}, wraps=True)
    show_rows(check_rows(answers.proven), wraps=True)


def _request_status(target: Target) -> VerifiedStatus | None:
    """Verify the coordinator of ``target``, and request its status, manifest and protection.

    None means that the manifest in force is not the last manifest in the line of the root.
    """
    from keyhouse.client import Coordinator

    proven = verify_target(target)
    line = proven.line
    with Coordinator(proven, timeout=target.timeouts()) as coordinator:
        state = coordinator.status()
        if state.code != RUNNING:
            return VerifiedStatus(proven, state)
        in_force = coordinator.manifest()
        protection = protection_under(in_force.manifest, coordinator, state)
        if line is None:
            return VerifiedStatus(proven, state, in_force.manifest, protection)
        if line.manifests[-1] != in_force.fingerprint:
            return None
        changes: tuple[str, ...] = ()
        if 0 < proven.line_before < len(line.raw):
            changes = tuple(changes_since(coordinator, line, proven.line_before, in_force.manifest))
    return VerifiedStatus(proven, state, in_force.manifest, protection, changes)


def _object(answers: VerifiedStatus, *, simulated: bool) -> dict[str, Any]:
    verdict, line = answers.proven.verdict, answers.proven.line
    return {
        "code": answers.status.code,
        "message": answers.status.message,
        "notProtected": answers.protection.note,
        "witnesses": answers.protection.witnesses,
        "uniqueId": verdict.mrenclave.hex(),
        "signerId": verdict.mrsigner.hex(),
        "tcbStatus": str(verdict.tcb_status),
        "advisories": list(verdict.advisories),
        "simulation": simulated,
        **({} if verdict.vm is None else {verdict.vm.FIELD: verdict.vm}),
        "manifests": [] if line is None else list(line.manifests),
        "new": list(answers.changes),
        "checks": checks_json(answers.proven),
    }


def _tcb(verdict: "Verdict") -> str:
    return f"{verdict.tcb_status}  {', '.join(verdict.advisories)}".rstrip()


def _identity(verdict: "Verdict") -> dict[str, str]:
    from keyhouse.views.measurements import rows_of_vm

    if verdict.vm is not None:
        return rows_of_vm(verdict.vm)
    return {"UniqueID": verdict.mrenclave.hex(), "SignerID": verdict.mrsigner.hex()}

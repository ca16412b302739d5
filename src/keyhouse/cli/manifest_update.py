"""`keyhouse manifest update`: change the manifest, with as many users as it wants to agree."""

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from keyhouse.cli.manifest_file import read_manifest
from keyhouse.cli.memory_option import MemoryOption
from keyhouse.cli.output import write_output
from keyhouse.cli.pccs_options import PccsCaFile, PccsUrl
from keyhouse.cli.printable import printable
from keyhouse.cli.recovery_place import RecoveryOption, RecoveryPlace, recovery_place
from keyhouse.cli.talk import show_json, show_rows, speaks
from keyhouse.cli.trust_options import (
    AttestationFile,
    CollateralFile,
    HostArgument,
    SimulationRoot,
    trusted,
)
from keyhouse.cli.user_options import CertificateFile, KeyFile
from keyhouse.client import ClientIdentity, Coordinator, Keep, Pending, UpdateAnswer
from keyhouse.manifest import fingerprint
from keyhouse.wire.errors import NotFound

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Change the manifest, together with others.")

FileArgument = Annotated[Path, typer.Argument(help="manifest file, or - for standard input")]
AsJson = Annotated[bool, typer.Option("--json", help="print one JSON object")]
"""Options of more than one command."""


class _Typed(msgspec.Struct, frozen=True):
    """What was typed, for the command that others have to type."""

    file: Path
    host: str
    attestation: Path
    collateral: Path | None
    simulation_root: Path | None
    pccs: str
    pccs_ca: Path | None
    memory: str

    @property
    def acknowledging(self) -> str:
        """The command on several lines, as a shell takes it."""
        options = [
            ("--attestation", self.attestation),
            ("--collateral", self.collateral),
            ("--simulation-root", self.simulation_root),
            ("--pccs", self.pccs or None),
            ("--pccs-ca", self.pccs_ca),
        ]
        lines = [
            ["keyhouse", "manifest", "update", "acknowledge", str(self.file), self.host],
            ["--cert", "YOUR.crt", "--key", "YOUR.key"],
            *([option, str(path)] for option, path in options if path is not None),
        ]
        return " \\\n    ".join(printable(shlex.join(line)) for line in lines)


@app.command(name="apply")
@speaks
def apply(
    file: FileArgument,
    host: HostArgument,
    attestation: AttestationFile,
    cert: CertificateFile,
    key: KeyFile,
    collateral: CollateralFile = None,
    simulation_root: SimulationRoot = None,
    pccs: PccsUrl = "",
    pccs_ca: PccsCaFile = None,
    memory: MemoryOption = "",
    recoverydata: RecoveryOption = "",
    *,
    as_json: AsJson = False,
) -> None:
    """Upload an update: raised security versions, or a complete new manifest.

    It is in force at once if nobody else has to agree; otherwise it waits for them.

    Example: keyhouse manifest update apply new.json localhost:4433 --cert alice.crt
    --key alice.key --attestation attestation.json --simulation-root root.pem
    """
    typed = _Typed(file, host, attestation, collateral, simulation_root, pccs, pccs_ca, memory)
    _agree(typed, ClientIdentity(cert, key), recoverydata, lambda one: one.update, as_json=as_json)


@app.command(name="acknowledge")
@speaks
def acknowledge(
    file: FileArgument,
    host: HostArgument,
    attestation: AttestationFile,
    cert: CertificateFile,
    key: KeyFile,
    collateral: CollateralFile = None,
    simulation_root: SimulationRoot = None,
    pccs: PccsUrl = "",
    pccs_ca: PccsCaFile = None,
    memory: MemoryOption = "",
    recoverydata: RecoveryOption = "",
    *,
    as_json: AsJson = False,
) -> None:
    """Agree to the pending update: to exactly the bytes in FILE, which you have read.

    Example: keyhouse manifest update acknowledge new.json localhost:4433 --cert bob.crt
    --key bob.key --attestation attestation.json --simulation-root root.pem
    """
    typed = _Typed(file, host, attestation, collateral, simulation_root, pccs, pccs_ca, memory)
    _agree(
        typed, ClientIdentity(cert, key), recoverydata, lambda one: one.acknowledge, as_json=as_json
    )


@app.command(name="get")
@speaks
def get(
    host: HostArgument,
    attestation: AttestationFile,
    collateral: CollateralFile = None,
    simulation_root: SimulationRoot = None,
    pccs: PccsUrl = "",
    pccs_ca: PccsCaFile = None,
    memory: MemoryOption = "",
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="new file for the manifest")
    ] = "",
    *,
    missing: Annotated[
        bool, typer.Option("--missing", help="print who has not agreed, instead of the manifest")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Print the manifest that waits for acknowledgements, byte for byte.

    Example: keyhouse manifest update get localhost:4433 --attestation attestation.json
    --simulation-root root.pem -o pending.json
    """
    with Coordinator(
        trusted(host, attestation, collateral, simulation_root, memory, pccs=pccs, pccs_ca=pccs_ca)
    ) as coordinator:
        pending = coordinator.pending()
    if pending is None:
        raise NotFound("no update is pending", hint="keyhouse manifest update apply starts one")
    if output:
        write_output(pending.manifest, output)
    if as_json:
        show_json(_object_of(pending, with_manifest=not missing))
    elif missing:
        show_rows(_rows_of(pending))
    elif not output:
        write_output(pending.manifest)


@app.command(name="cancel")
@speaks
def cancel(
    host: HostArgument,
    attestation: AttestationFile,
    cert: CertificateFile,
    key: KeyFile,
    collateral: CollateralFile = None,
    simulation_root: SimulationRoot = None,
    pccs: PccsUrl = "",
    pccs_ca: PccsCaFile = None,
    memory: MemoryOption = "",
    *,
    as_json: AsJson = False,
) -> None:
    """Give the pending update up. Every user with UpdateManifest may.

    Example: keyhouse manifest update cancel localhost:4433 --cert bob.crt --key bob.key
    --attestation attestation.json --simulation-root root.pem
    """
    proven = trusted(
        host, attestation, collateral, simulation_root, memory, pccs=pccs, pccs_ca=pccs_ca
    )
    with Coordinator(proven, ClientIdentity(cert, key)) as coordinator:
        coordinator.cancel()
    if as_json:
        show_json({"cancelled": True})
    else:
        show_rows({"state": "cancelled: the manifest in force stays"})


def _agree(
    typed: _Typed,
    user: ClientIdentity,
    recoverydata: str,
    call: Callable[[Coordinator], Callable[[bytes, Keep], UpdateAnswer]],
    *,
    as_json: bool,
) -> None:
    """Upload or acknowledge; keep recovery secrets first, then say how far the update is."""
    raw = read_manifest(str(typed.file))
    proven = trusted(
        typed.host,
        typed.attestation,
        typed.collateral,
        typed.simulation_root,
        typed.memory,
        pccs=typed.pccs,
        pccs_ca=typed.pccs_ca,
    )
    with recovery_place(recoverydata, raw) as place, Coordinator(proven, user) as coordinator:
        answer = call(coordinator)(raw, place.keep)
        _show(answer, raw, place, as_json=as_json)
    if not answer.applied:
        typer.echo(_next_step(answer, typed), err=True)


def _show(answer: UpdateAnswer, raw: bytes, place: RecoveryPlace, *, as_json: bool) -> None:
    if answer.recovery_secrets and place.path is None:
        return  # standard output holds the secrets alone
    if as_json:
        show_json(
            {
                "applied": answer.applied,
                "fingerprint": fingerprint(raw),
                "missingAcknowledgments": answer.missing_acknowledgments,
                "missingUsers": answer.missing_users,
                "message": answer.message,
                "recoveryFile": place.path,
            }
        )
        return
    rows = {"state": "the update is in force" if answer.applied else "the update waits"}
    rows["fingerprint"] = fingerprint(raw)
    if not answer.applied:
        rows["needed"] = f"{answer.missing_acknowledgments} more of: {_listed(answer)}"
    if place.path is not None:
        rows["recovery"] = f"{place.path}  for {', '.join(sorted(answer.recovery_secrets))}"
    if answer.message:
        rows["message"] = answer.message
    show_rows(rows)


def _next_step(answer: UpdateAnswer, typed: _Typed) -> str:
    many = answer.missing_acknowledgments != 1
    who = f"{answer.missing_acknowledgments} of {_listed(answer)}"
    verb = "read the same file and type" if many else "reads the same file and types"
    return f"next: {printable(who)} {verb}:\n  {typed.acknowledging}"


def _listed(answer: UpdateAnswer | Pending) -> str:
    return ", ".join(answer.missing_users)


def _rows_of(pending: Pending) -> dict[str, str]:
    return {
        "fingerprint": fingerprint(pending.manifest),
        "missing": _listed(pending),
        "message": pending.message,
    }


def _object_of(pending: Pending, *, with_manifest: bool) -> dict[str, object]:
    found: dict[str, object] = {
        "fingerprint": fingerprint(pending.manifest),
        "missingUsers": pending.missing_users,
        "message": pending.message,
    }
    return {**found, "manifest": pending.manifest} if with_manifest else found

"""`keyhouse manifest set` and `update`: set the first manifest, and change it with other users."""

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from keyhouse.base.printable import printable
from keyhouse.cli.manifest.file import AsYaml, FileArgument, open_manifest, write_manifest
from keyhouse.cli.manifest.plan import ReviewOptions, pending_update, require_pending
from keyhouse.cli.manifest.read import with_updates
from keyhouse.cli.manifest.recovery_file import RecoveryOption, RecoveryPlace, recovery_place
from keyhouse.cli.options.connect import (
    coordinator_of,
    store_certificates,
    verify_target,
    without_stored_root,
)
from keyhouse.cli.options.target import Target
from keyhouse.cli.options.user import UserOption
from keyhouse.cli.output.progress_bar import long_work
from keyhouse.cli.output.show import show_json, show_result, show_rows
from keyhouse.cli.parser import AsJson, CommandGroup, Option, command
from keyhouse.manifest import fingerprint
from keyhouse.views.visible import listed
from keyhouse.wire.json_parser import read_json

if TYPE_CHECKING:
    from keyhouse.client import Coordinator, Keep, Pending, PlanData, UpdateAnswer

update_app = CommandGroup(help="Change the manifest together with other users.")


@command
def set_manifest(
    file: FileArgument,
    target: Target,
    recoverydata: RecoveryOption = "",
    *,
    as_json: AsJson = False,
) -> None:
    """Set the first manifest of a coordinator.

    The command verifies the coordinator first. Afterwards the command reads the manifest in force,
    and compares it with FILE.

    Example: keyhouse manifest set manifest.json localhost:4433 --attestation attestation.json
    --simulation-root root.pem -r recovery.json
    """
    from keyhouse.client import Coordinator

    source = open_manifest(str(file))
    raw = source.raw
    proven = verify_target(without_stored_root(target))
    with (
        source.explained(),
        recovery_place(recoverydata, raw) as place,
        Coordinator(proven, timeout=target.timeouts()) as coordinator,
    ):
        with long_work("setting the manifest", quiet=as_json, at_once=False):
            shares = coordinator.set_manifest(raw, place.write)
        path = place.path
    if target.coordinator_cert:
        store_certificates(proven, target.coordinator_cert)
    if recoverydata == "-" and shares:
        return  # standard output has only the secrets
    if as_json:
        show_json(
            {"fingerprint": fingerprint(raw), "recoveryKeys": sorted(shares), "recoveryFile": path}
        )
        return
    rows = {"state": "the manifest is in force", "fingerprint": fingerprint(raw)}
    if path is not None:
        rows["recovery"] = f"{path}  for {', '.join(sorted(shares))}"
    show_rows(rows)


@update_app.command("apply")
def apply(
    file: FileArgument,
    target: Target,
    user: UserOption,
    reviewed: ReviewOptions,
    recoverydata: RecoveryOption = "",
    *,
    renew: Annotated[
        bool,
        Option(
            "--renew",
            help="send the manifest in force again: the coordinator regenerates the intermediate"
            " certificate. Workloads with earlier certificates and workloads with later"
            " certificates do not accept each other",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Upload an update.

    An update is a manifest with only raised security versions, or a complete new manifest.

    Example: keyhouse manifest update apply new.json localhost:4433 --cert alice.crt --key alice.key
    --attestation attestation.json --simulation-root root.pem

    The command first shows the plan of the update. With --json, the command shows the plan only if
    you have to confirm the plan. Unless you pass --no-plan, the coordinator refuses the update if
    its effects have changed since the plan. Your key (ECDSA, RSA or Ed25519) signs the update if
    the coordinator has a log. The update is in force at once, or waits for the agreement of other
    users.

    If FILE has exactly the bytes of the manifest in force, and no security version was raised
    since, the command sends nothing. With --renew it sends the manifest again, to renew
    certificates.
    """
    reviewed.require_terminal()
    source = open_manifest(str(file))
    with source.explained(), coordinator_of(target, user) as coordinator:
        if not renew and _is_in_force(coordinator, source.raw):
            _show_unchanged(source.raw, as_json=as_json)
            return
        send = coordinator.update
        answer = _send(coordinator, send, source.raw, reviewed, recoverydata, as_json=as_json)
    _show_next_step(answer, file, target)


@update_app.command("acknowledge")
def acknowledge(
    file: FileArgument,
    target: Target,
    user: UserOption,
    reviewed: ReviewOptions,
    recoverydata: RecoveryOption = "",
    *,
    as_json: AsJson = False,
) -> None:
    """Agree to the pending update, with exactly the bytes in FILE.

    Example: keyhouse manifest update acknowledge new.json localhost:4433 --cert bob.crt --key
    bob.key --attestation attestation.json --simulation-root root.pem

    The command shows the plan and signs the acknowledgement as keyhouse manifest update apply does.
    Unless you pass --no-plan, the coordinator refuses the acknowledgement if the effects of the
    update have changed since the plan.
    """
    source = open_manifest(str(file))
    with source.explained(), coordinator_of(target, user) as coordinator:
        require_pending(coordinator, source.raw)
        reviewed.require_terminal()
        send = coordinator.acknowledge
        answer = _send(coordinator, send, source.raw, reviewed, recoverydata, as_json=as_json)
    _show_next_step(answer, file, target)


def _send(
    coordinator: "Coordinator",
    send: "Callable[[bytes, Keep, PlanData | str], UpdateAnswer]",
    raw: bytes,
    reviewed: ReviewOptions,
    recoverydata: str,
    *,
    as_json: bool,
) -> "UpdateAnswer":
    """Send the update ``raw`` after the user has confirmed its plan; return the answer.

    ``send`` is the call: an update or an acknowledgement. ``reviewed`` has the options for the
    plan. ``recoverydata`` is the path for new recovery secrets. The function prints the answer.
    """
    plan = reviewed.plan(coordinator, raw, quiet=as_json)
    with recovery_place(recoverydata, raw) as place:
        with long_work("updating the manifest", quiet=as_json, at_once=False):
            answer = send(raw, place.write, plan or "")
        _show(answer, raw, place, plan, as_json=as_json)
    return answer


def _is_in_force(coordinator: "Coordinator", raw: bytes) -> bool:
    """Return whether ``raw`` is the manifest in force, with equal effects.

    A package update raises a security version, but does not change the bytes of the manifest. An
    update with the same bytes would lower this version again, so it is a change.
    """
    if coordinator.manifest().manifest != raw:
        return False
    updated = with_updates(raw, coordinator.update_log())
    return read_json(updated) == read_json(raw)


def _show_unchanged(raw: bytes, *, as_json: bool) -> None:
    """Print that the manifest ``raw`` is in force already, and that the command sent nothing."""
    if as_json:
        show_json({"applied": True, "sent": False, "fingerprint": fingerprint(raw)})
        return
    show_rows({"state": "nothing to change; nothing was sent", "fingerprint": fingerprint(raw)})
    click.echo("hint: --renew sends the manifest again, and renews certificates", err=True)


@update_app.command("get")
def get(
    target: Target,
    output: Annotated[
        str, Option("--output", "-o", metavar="FILE", help="new file for the manifest")
    ] = "",
    *,
    missing: Annotated[
        bool,
        Option(
            "--missing", help="print the users who have not agreed yet, instead of the manifest"
        ),
    ] = False,
    as_yaml: AsYaml = False,
    as_json: AsJson = False,
) -> None:
    """Print the pending update, which waits for acknowledgements.

    The output has exactly the bytes of the manifest; on a terminal it is indented.

    Example: keyhouse manifest update get localhost:4433 --attestation attestation.json
    --simulation-root root.pem -o pending.json
    """
    with coordinator_of(target) as coordinator:
        pending = pending_update(coordinator)
    if output:
        write_manifest(pending.manifest, output, as_yaml=as_yaml)
    summary = {"fingerprint": fingerprint(pending.manifest)}
    if as_json:
        rest = {} if missing else {"manifest": pending.manifest}
        people = {"missingUsers": pending.missing_users, "message": pending.message}
        show_json({**summary, **people, **rest})
    elif missing:
        show_rows({**summary, "missing": _names_of(pending), "message": pending.message})
    elif not output:
        write_manifest(pending.manifest, "", as_yaml=as_yaml)


@update_app.command("cancel")
def cancel(target: Target, user: UserOption, *, as_json: AsJson = False) -> None:
    """Cancel the pending update.

    Every user with the permission UpdateManifest may cancel the update. Your key
    signs the request as keyhouse manifest update apply does.

    Example: keyhouse manifest update cancel localhost:4433 --cert bob.crt --key bob.key
    --attestation attestation.json --simulation-root root.pem
    """
    with coordinator_of(target, user) as coordinator:
        coordinator.cancel()
    rows = {"state": "cancelled: the manifest in force is unchanged"}
    show_result({"cancelled": True}, rows, as_json=as_json)


def _show(
    answer: "UpdateAnswer",
    raw: bytes,
    place: RecoveryPlace,
    plan: "PlanData | None",
    *,
    as_json: bool,
) -> None:
    if answer.recovery_secrets and place.path is None:
        return  # standard output has only the secrets
    if as_json:
        show_json(
            {
                "applied": answer.applied,
                "sent": True,
                "fingerprint": fingerprint(raw),
                "plan": plan.digest if plan else None,
                "signed": answer.signed,
                "missingAcknowledgments": answer.missing_acknowledgments,
                "missingUsers": answer.missing_users,
                "message": answer.message,
                "recoveryFile": place.path,
            }
        )
        return
    rows = {
        "state": "the update is in force"
        if answer.applied
        else "the update waits for acknowledgements"
    }
    rows["fingerprint"] = fingerprint(raw)
    rows["signed"] = "by the user's key" if answer.signed else "no"
    if not answer.applied:
        rows["needed"] = f"{answer.missing_acknowledgments} more of: {_names_of(answer)}"
    if place.path is not None:
        rows["recovery"] = f"{place.path}  for {', '.join(sorted(answer.recovery_secrets))}"
    if answer.message:
        rows["message"] = answer.message
    show_rows(rows, wraps=True)


def _show_next_step(answer: "UpdateAnswer", file: Path, target: Target) -> None:
    if answer.applied:
        return
    many = answer.missing_acknowledgments != 1
    who = f"{answer.missing_acknowledgments} of {_names_of(answer)}"
    verb = "read the same file and type" if many else "reads the same file and types"
    commands = "\n  ".join(_acknowledging(file, target.resolve()))
    click.echo(f"next: {printable(who)} {verb}, with files of their own:\n  {commands}", err=True)


def _acknowledging(file: Path, typed: Target) -> list[str]:
    """Return the next commands for further users: the review, then the acknowledgement.

    ``file`` is the update, and ``typed`` the target of this command. Paths of files are
    placeholders, because a user must not rely on the files of the proposer.
    """
    trust = ["--attestation", "YOUR-ATTESTATION.json"]
    if typed.simulation_root is not None:
        trust += ["--simulation-root", "YOUR-MACHINE/root.pem"]
    elif typed.pccs:
        trust += ["--pccs", typed.pccs]
    who = ["--cert", "YOUR.crt", "--key", "YOUR.key"]
    plan = ["keyhouse", "manifest", "plan", file.name, typed.host]
    agree = ["keyhouse", "manifest", "update", "acknowledge", file.name, typed.host]
    return [
        " \\\n    ".join(printable(shlex.join(line)) for line in lines)
        for lines in (
            (plan, who, trust),
            (agree, ["--expect-plan", "DIGEST-OF-YOUR-PLAN"], who, trust),
        )
    ]


def _names_of(answer: "UpdateAnswer | Pending") -> str:
    return listed(answer.missing_users)

"""`keyhouse manifest set`: give a coordinator its first manifest."""

from pathlib import Path
from typing import Annotated

import typer

from keyhouse.cli.manifest.file import read_manifest
from keyhouse.cli.options.connect import trusted
from keyhouse.cli.options.kept_certificates import keep, unpinned
from keyhouse.cli.options.target import Target
from keyhouse.cli.output.talk import AsJson, show_json, show_rows, speaks
from keyhouse.cli.recover.place import RecoveryOption, recovery_place
from keyhouse.manifest import fingerprint

__all__ = ["set_manifest"]


@speaks
def set_manifest(
    file: Annotated[Path, typer.Argument(help="manifest file, or - for standard input")],
    target: Target,
    recoverydata: RecoveryOption = "",
    *,
    as_json: AsJson = False,
) -> None:
    """Verify the coordinator, set its first manifest, and read it back.

    Example: keyhouse manifest set manifest.json localhost:4433 --attestation attestation.json
    --simulation-root root.pem -r recovery.json
    """
    from keyhouse.client import Coordinator

    raw = read_manifest(str(file))
    proven = trusted(unpinned(target))
    with recovery_place(recoverydata, raw) as place, Coordinator(proven) as coordinator:
        shares = coordinator.set_manifest(raw, place.keep)
        path = place.path
    if target.coordinator_cert:
        keep(proven, target.coordinator_cert)
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

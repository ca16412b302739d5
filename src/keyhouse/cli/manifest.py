"""`keyhouse manifest`: commands about manifests."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from keyhouse.cli import manifest_read
from keyhouse.cli.manifest_set import set_manifest
from keyhouse.cli.manifest_update import app as update_app
from keyhouse.cli.printable import printable
from keyhouse.cli.talk import read_file, show_json, speaks
from keyhouse.wire.errors import Invalid

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Check, set, read and update manifests.")


@app.callback()
def group() -> None:
    """Check, set, read and update manifests."""


@app.command(name="check")
@speaks
def check(
    file: Annotated[Path, typer.Argument(help="manifest file, or - for standard input")],
    *,
    dns_names: Annotated[
        str, typer.Option(help="names of the coordinator: certificates may not take them")
    ] = "localhost",
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object")] = False,
) -> None:
    """Check a manifest as the coordinator would: all problems at once.

    Example: keyhouse manifest check manifest.json
    """
    from keyhouse.authority import make_coordinator_keys, parse_names
    from keyhouse.coordinator import check_fully
    from keyhouse.manifest import fingerprint

    raw = read_file(str(file))
    now = datetime.now(UTC)
    names, addresses = parse_names(dns_names)
    keys = make_coordinator_keys(
        dns_names=names, ip_addresses=addresses, curve="P-256", now=now, simulated=True
    )
    try:
        checked = check_fully(raw, keys=keys, now=now)
    except Invalid as invalid:
        if as_json:
            show_json({"valid": False, "problems": invalid.problems})
            raise SystemExit(1) from None
        raise
    if as_json:
        show_json({"valid": True, "fingerprint": fingerprint(raw), "warnings": checked.warnings})
        return
    for warning in checked.warnings:
        typer.echo(f"warning: {printable(str(warning))}", err=True)
    typer.echo(f"valid  {fingerprint(raw)}")


@app.command(name="schema")
@speaks
def schema() -> None:
    """Print the JSON Schema of a manifest, for editors.

    Example: keyhouse manifest schema > manifest.schema.json
    """
    import json

    from keyhouse.manifest.schema import manifest_schema

    typer.echo(json.dumps(manifest_schema(), indent=2, ensure_ascii=False))


app.command(name="set")(set_manifest)
app.command(name="get")(manifest_read.get)
app.command(name="verify")(manifest_read.verify)
app.command(name="log")(manifest_read.log)
app.command(name="signature")(manifest_read.signature)
app.add_typer(update_app, name="update")

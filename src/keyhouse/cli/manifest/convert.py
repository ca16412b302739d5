"""`keyhouse manifest convert`: the exact bytes that are uploaded for a manifest file."""

from pathlib import Path
from typing import Annotated

import typer

from keyhouse.cli.manifest.file import read_manifest
from keyhouse.cli.output.bytes import write_output
from keyhouse.cli.output.talk import AsJson, show_json, speaks
from keyhouse.manifest import fingerprint

__all__ = ["convert"]


@speaks
def convert(
    file: Annotated[Path, typer.Argument(help="manifest file, JSON or YAML, or - for stdin")],
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="new file instead of stdout")
    ] = "",
    *,
    as_json: AsJson = False,
) -> None:
    """Print the bytes that are uploaded for a manifest: of YAML its JSON, JSON as it is.

    They are what the coordinator keeps, and what fingerprints and signatures are of. A coordinator
    that sets its manifest at its start (serve --startup-manifest) is given this file.

    Example: keyhouse manifest convert manifest.yaml -o manifest.json
    """
    raw = read_manifest(str(file))
    if output or not as_json:
        write_output(raw, output)
    if as_json:
        kept = {"file": output} if output else {"manifest": raw}
        show_json({"fingerprint": fingerprint(raw), **kept})

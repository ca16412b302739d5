"""`keyhouse secret get | set`: read and upload secrets as a user."""

from base64 import b64encode
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from keyhouse.cli.memory_option import MemoryOption
from keyhouse.cli.output import write_output
from keyhouse.cli.pccs_options import PccsCaFile, PccsUrl
from keyhouse.cli.pem_secret import read_pem_secret
from keyhouse.cli.secret_file import read_secret_file
from keyhouse.cli.talk import read_file, show_json, show_rows, speaks
from keyhouse.cli.trust_options import (
    AttestationFile,
    CollateralFile,
    HostArgument,
    SimulationRoot,
    trusted,
)
from keyhouse.cli.user_options import CertificateFile, KeyFile
from keyhouse.client import ClientIdentity, Coordinator, SecretObject

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Read and upload secrets.")

AsJson = Annotated[bool, typer.Option("--json", help="print one JSON object")]


@app.command(name="get")
@speaks
def get(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="names of secrets")],
    host: HostArgument,
    attestation: AttestationFile,
    cert: CertificateFile,
    key: KeyFile,
    collateral: CollateralFile = None,
    simulation_root: SimulationRoot = None,
    pccs: PccsUrl = "",
    pccs_ca: PccsCaFile = None,
    memory: MemoryOption = "",
    output: Annotated[
        str,
        typer.Option("--output", "-o", metavar="FILE", help="new file (0600) for the JSON object"),
    ] = "",
    *,
    as_json: AsJson = False,
) -> None:
    """Print secrets that you may read, values in base64: all of them, or none.

    Example: keyhouse secret get apiToken localhost:4433 --cert bob.crt --key bob.key
    --attestation attestation.json --simulation-root root.pem
    """
    proven = trusted(
        host, attestation, collateral, simulation_root, memory, pccs=pccs, pccs_ca=pccs_ca
    )
    with Coordinator(proven, ClientIdentity(cert, key)) as coordinator:
        found = coordinator.secrets(names)
    secrets = {name: _object(found[name]) for name in dict.fromkeys(names)}
    if output or as_json:
        write_output(msgspec.json.encode({"secrets": secrets}) + b"\n", output)
        return
    for name, values in secrets.items():
        show_rows({"name": name} | {field: _shown(value) for field, value in values.items()})


@app.command(name="set")
@speaks
def set_secrets(
    file: Annotated[
        Path, typer.Argument(help='JSON {"name": {"key": base64} ...}, or - for standard input')
    ],
    host: HostArgument,
    attestation: AttestationFile,
    cert: CertificateFile,
    key: KeyFile,
    collateral: CollateralFile = None,
    simulation_root: SimulationRoot = None,
    pccs: PccsUrl = "",
    pccs_ca: PccsCaFile = None,
    memory: MemoryOption = "",
    from_pem: Annotated[
        str,
        typer.Option(
            "--from-pem",
            metavar="NAME",
            help="FILE is PEM, a certificate with its private key if there is one: set it as NAME",
        ),
    ] = "",
    *,
    as_json: AsJson = False,
) -> None:
    """Upload user-defined secrets: all of them, or none.

    Example: keyhouse secret set secrets.json localhost:4433 --cert bob.crt --key bob.key
    --attestation attestation.json --simulation-root root.pem
    """
    content = read_file(str(file))
    uploads = {from_pem: read_pem_secret(content)} if from_pem else read_secret_file(content)
    proven = trusted(
        host, attestation, collateral, simulation_root, memory, pccs=pccs, pccs_ca=pccs_ca
    )
    with Coordinator(proven, ClientIdentity(cert, key)) as coordinator:
        coordinator.write_secrets(uploads)
    if as_json:
        show_json({"stored": sorted(uploads)})
    else:
        show_rows({"stored": ", ".join(sorted(uploads))})


def _object(secret: SecretObject) -> dict[str, object]:
    """Return the fields that a secret has; this is where values leave their ``Secret``."""
    fields: dict[str, object] = {"type": secret.type, "userDefined": secret.user_defined}
    if secret.size:
        fields["size"] = secret.size
    if secret.cert:
        fields["cert"] = secret.cert
    fields["private"] = secret.private.reveal() if secret.private else None
    fields["public"] = secret.public.reveal() if secret.public else None
    return fields


def _shown(value: object) -> str:
    if value is None:
        return "not uploaded yet"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return b64encode(value).decode() if isinstance(value, bytes) else str(value)

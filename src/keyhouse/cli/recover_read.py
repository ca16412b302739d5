"""`keyhouse recover public-key` and `secrets`: what a coordinator gives for a recovery."""

from pathlib import Path
from typing import Annotated

import msgspec
import typer
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_der_public_key,
)

from keyhouse.cli.memory_option import NONE, MemoryOption, memory_of
from keyhouse.cli.output import write_output
from keyhouse.cli.pccs_options import PccsCaFile, PccsUrl
from keyhouse.cli.printable import printable
from keyhouse.cli.recover_files import OutputFile, certificate
from keyhouse.cli.talk import speaks
from keyhouse.cli.trust_options import (
    AttestationFile,
    CollateralFile,
    HostArgument,
    SimulationRoot,
    trusted,
)
from keyhouse.cli.user_options import CertificateFile, KeyFile
from keyhouse.client import ClientIdentity, Coordinator, Offer, require_remembered, require_root

__all__ = ["public_key", "secrets"]


@speaks
def public_key(
    host: HostArgument,
    attestation: AttestationFile,
    root: Annotated[
        Path | None,
        typer.Option("--root", metavar="FILE", help="root certificate of the deployment (PEM)"),
    ] = None,
    output: OutputFile = "",
    collateral: CollateralFile = None,
    simulation_root: SimulationRoot = None,
    pccs: PccsUrl = "",
    pccs_ca: PccsCaFile = None,
    memory: MemoryOption = "",
) -> None:
    """Verify a coordinator in recovery mode and print the key that shares are encrypted to.

    Example: keyhouse recover public-key localhost:4433 --root root.pem -o coordinator.pub
    --attestation attestation.json --simulation-root simulation/root.pem
    """
    kept = certificate(root) if root is not None else None
    remembering = memory_of(memory)
    proven = trusted(
        host,
        attestation,
        collateral,
        simulation_root,
        NONE,  # a temporary root
        pccs=pccs,
        pccs_ca=pccs_ca,
    )
    with Coordinator(proven) as coordinator:
        offer = coordinator.recovery_offer()
    if remembering is not None:
        require_remembered(offer, remembering.read().root_at(proven.address))
    if kept is not None:
        require_root(offer, kept)
    key = load_der_public_key(offer.ephemeral_public_key)
    typer.echo(_progress(offer), err=True)
    write_output(key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo), output)


@speaks
def secrets(
    host: HostArgument,
    attestation: AttestationFile,
    cert: CertificateFile,
    key: KeyFile,
    output: OutputFile = "",
    collateral: CollateralFile = None,
    simulation_root: SimulationRoot = None,
    pccs: PccsUrl = "",
    pccs_ca: PccsCaFile = None,
    memory: MemoryOption = "",
) -> None:
    """Print the encrypted recovery secrets again, as a user with UpdateManifest.

    Example: keyhouse recover secrets localhost:4433 --cert admin.pem --key admin.key
    --attestation attestation.json --simulation-root simulation/root.pem
    """
    proven = trusted(
        host, attestation, collateral, simulation_root, memory, pccs=pccs, pccs_ca=pccs_ca
    )
    with Coordinator(proven, ClientIdentity(cert, key)) as coordinator:
        found = coordinator.recovery_secrets()
    write_output(msgspec.json.encode({"RecoverySecrets": found}) + b"\n", output)


def _progress(offer: Offer) -> str:
    received = ", ".join(printable(name) for name in offer.received) or "none"
    keys = ", ".join(printable(name) for name in sorted(offer.index.keys))
    return f"{offer.index.threshold} shares needed, of: {keys}; received: {received}"

"""`keyhouse recover upload`: hand in one share, to a coordinator that proved what it is."""

from pathlib import Path
from typing import Annotated

import typer

from keyhouse.cli.memory_option import NONE, MemoryOption, memory_of
from keyhouse.cli.pccs_options import PccsCaFile, PccsUrl
from keyhouse.cli.printable import printable
from keyhouse.cli.recover_files import (
    PLAIN_SIZES,
    HolderKeyFile,
    ShareFile,
    ShareName,
    ShareUnreadable,
    certificate,
    chosen,
    holder_key,
    plain_share,
    shares_in,
    signature_in,
)
from keyhouse.cli.talk import show_json, show_rows, speaks
from keyhouse.cli.trust_options import (
    AttestationFile,
    CollateralFile,
    HostArgument,
    SimulationRoot,
    trusted,
)
from keyhouse.client import (
    Coordinator,
    HolderKey,
    Offer,
    TrustFailed,
    encrypt_share,
    require_listed,
    require_remembered,
    require_root,
    require_signed,
)

__all__ = ["upload"]

_RECOVERED = "recovered: the state is back, under its old root certificate"


@speaks
def upload(
    file: ShareFile,
    host: HostArgument,
    attestation: AttestationFile,
    key: HolderKeyFile = None,
    signature: Annotated[
        Path | None,
        typer.Option(
            "--signature",
            "-s",
            metavar="FILE",
            help="signature over the decrypted secret, if the key is not here",
        ),
    ] = None,
    root: Annotated[
        Path | None,
        typer.Option("--root", metavar="FILE", help="root certificate of the deployment (PEM)"),
    ] = None,
    name: ShareName = "",
    collateral: CollateralFile = None,
    simulation_root: SimulationRoot = None,
    pccs: PccsUrl = "",
    pccs_ca: PccsCaFile = None,
    memory: MemoryOption = "",
    *,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object")] = False,
) -> None:
    """Verify the coordinator and what it would recover, then hand in one recovery secret.

    It is decrypted and signed with --key, or comes with a --signature made elsewhere. Without
    --root nobody compares the deployment with the one that you kept.

    Example: keyhouse recover upload recovery.json localhost:4433 --key holder.key --root root.pem
    --attestation attestation.json --simulation-root simulation/root.pem
    """
    own, secrets = (holder_key(key) if key is not None else None), shares_in(file)
    signed = signature_in(signature) if signature is not None else None
    if own is None and signed is None:
        raise ShareUnreadable("nothing signs the recovery secret", hint="--key or --signature")
    kept = certificate(root) if root is not None else None
    remembering = memory_of(memory)
    proven = trusted(host, attestation, collateral, simulation_root, NONE)  # a temporary root
    with Coordinator(proven) as coordinator:
        offer = coordinator.recovery_offer()
        if remembering is not None:
            require_remembered(offer, remembering.read().root_at(proven.address))
        if kept is None:
            typer.echo("warning: without --root the deployment is not compared", err=True)
        else:
            require_root(offer, kept)
        encrypted, made = _prepared(offer, secrets, name, own, signed)
        progress = coordinator.recover(encrypted, made)
    if not progress.remaining:
        memory = memory if remembering is not None else NONE  # that there is none has been told
        again = trusted(
            host, attestation, collateral, simulation_root, memory, pccs=pccs, pccs_ca=pccs_ca
        )
        if again.root_der != offer.index.root:
            raise TrustFailed("the coordinator recovered under another root than it had said")
    if as_json:
        show_json({"remaining": progress.remaining, "message": progress.message})
        return
    show_rows(
        {
            "state": _RECOVERED if not progress.remaining else "recovery mode",
            "shares": progress.message,
            "missing": str(progress.remaining),
        }
    )


def _prepared(
    offer: Offer,
    secrets: dict[str, bytes],
    name: str,
    own: HolderKey | None,
    signed: bytes | None,
) -> tuple[bytes, bytes]:
    """Return the share under the ephemeral key, and its signature; nothing unproven is touched."""
    if own is not None:
        listed = require_listed(offer, own.public_key)
        name = name or (listed if listed in secrets else "")
        typer.echo(f"your recovery key: {printable(listed)}", err=True)
    secret = chosen(secrets, name)
    if own is None and len(secret) not in PLAIN_SIZES and signed is not None:
        return secret, signed  # encrypted to the ephemeral key elsewhere
    share = plain_share(secret, own)
    signature = signed if signed is not None or own is None else own.sign(share)
    assert signature is not None  # noqa: S101 one of both is there
    require_signed(offer, share, signature)
    return encrypt_share(offer.ephemeral_public_key, share), signature

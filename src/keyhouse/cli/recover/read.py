"""`keyhouse recover public-key` and `secrets`: what a coordinator gives for a recovery."""

from typing import TYPE_CHECKING

import msgspec
import typer

from keyhouse.base.printable import printable
from keyhouse.cli.options.connect import coordinator_of
from keyhouse.cli.options.target import Target
from keyhouse.cli.options.user import User
from keyhouse.cli.output.bytes import write_output
from keyhouse.cli.output.talk import AsJson, show_json, speaks
from keyhouse.cli.recover.offer import RootFile, offering
from keyhouse.cli.recover.options import OutputFile

if TYPE_CHECKING:
    from keyhouse.client import Offer

__all__ = ["public_key", "secrets"]


@speaks
def public_key(
    target: Target, root: RootFile = None, output: OutputFile = "", *, as_json: AsJson = False
) -> None:
    """Verify a coordinator in recovery mode and print the key that shares are encrypted to.

    Example: keyhouse recover public-key localhost:4433 --root root.pem -o coordinator.pub
    --attestation attestation.json --simulation-root simulation/root.pem
    """
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        PublicFormat,
        load_der_public_key,
    )

    with offering(target, root) as (_, offer):
        pass
    key = load_der_public_key(offer.ephemeral_public_key)
    pem = key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    if output or not as_json:
        write_output(pem, output)
    if as_json:
        show_json(_object_of(offer, pem.decode("ascii")))
    else:
        typer.echo(_progress(offer), err=True)


@speaks
def secrets(
    target: Target, user: User, output: OutputFile = "", *, as_json: AsJson = False
) -> None:
    """Print the encrypted recovery secrets again, as a user with UpdateManifest: a JSON object.

    Example: keyhouse recover secrets localhost:4433 --cert admin.pem --key admin.key
    --attestation attestation.json --simulation-root simulation/root.pem
    """
    del as_json  # it is JSON in any case
    with coordinator_of(target, user) as coordinator:
        found = coordinator.recovery_secrets()
    write_output(msgspec.json.encode({"RecoverySecrets": found}) + b"\n", output)


def _progress(offer: "Offer") -> str:
    received = ", ".join(printable(name) for name in offer.received) or "none"
    keys = ", ".join(printable(name) for name in sorted(offer.index.keys))
    return f"{offer.index.threshold} shares needed, of: {keys}; received: {received}"


def _object_of(offer: "Offer", pem: str) -> dict[str, object]:
    return {
        "publicKey": pem,
        "needed": offer.index.threshold,
        "keys": sorted(offer.index.keys),
        "received": offer.received,
    }

"""`keyhouse recover sign` and `encrypt`: a holder's work where no network is."""

from base64 import b64encode
from pathlib import Path
from typing import Annotated

import typer

from keyhouse.cli.output import write_output
from keyhouse.cli.recover_files import (
    HolderKeyFile,
    OutputFile,
    ShareFile,
    ShareName,
    chosen,
    holder_key,
    plain_share,
    public_key,
    shares_in,
)
from keyhouse.cli.talk import speaks
from keyhouse.client import encrypt_share

__all__ = ["encrypt", "sign"]


@speaks
def sign(
    file: ShareFile,
    key: Annotated[
        Path, typer.Option("--key", "-k", metavar="FILE", help="the holder's private RSA key (PEM)")
    ],
    name: ShareName = "",
    output: OutputFile = "",
) -> None:
    """Decrypt the recovery secret if it is encrypted, and print the signature over it, in base64.

    Example: keyhouse recover sign recovery.json --name alice --key alice.key -o alice.signature
    """
    own = holder_key(key)
    share = plain_share(chosen(shares_in(file), name), own)
    write_output(b64encode(own.sign(share)) + b"\n", output)


@speaks
def encrypt(
    file: ShareFile,
    coordinator_pub_key: Annotated[
        Path,
        typer.Option(
            "--coordinator-pub-key",
            metavar="FILE",
            help="the key of `keyhouse recover public-key` (PEM)",
        ),
    ],
    key: HolderKeyFile = None,
    name: ShareName = "",
    output: OutputFile = "",
) -> None:
    """Encrypt the recovery secret, decrypted with --key if need be, to the coordinator.

    Example: keyhouse recover encrypt recovery.json --name alice --key alice.key
    --coordinator-pub-key coordinator.pub -o alice.encrypted
    """
    own = holder_key(key) if key is not None else None
    share = plain_share(chosen(shares_in(file), name), own)
    write_output(b64encode(encrypt_share(public_key(coordinator_pub_key), share)) + b"\n", output)

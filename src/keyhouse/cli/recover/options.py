"""Arguments and options of the recovery commands."""

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["OutputFile", "ShareFile", "ShareName"]

ShareFile = Annotated[
    Path,
    typer.Argument(
        help="the recovery secret: the JSON file of manifest set, or one secret, encrypted or"
        " decrypted, as it is or in base64; - for standard input",
        metavar="FILE",
    ),
]
ShareName = Annotated[
    str, typer.Option("--name", metavar="NAME", help="name of the recovery key, in a JSON file")
]
OutputFile = Annotated[
    str,
    typer.Option("--output", "-o", metavar="FILE", help="new file (default: standard output)"),
]

"""Who calls: the options that name a user's certificate and key."""

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["CertificateFile", "KeyFile"]

CertificateFile = Annotated[
    Path, typer.Option("--cert", "-c", metavar="FILE", help="your certificate as a user (PEM)")
]
KeyFile = Annotated[
    Path, typer.Option("--key", "-k", metavar="FILE", help="its private key (PEM, not encrypted)")
]

"""Options of a PCCS, and the collateral from a PCCS for a quote."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from keyhouse.base.printable import printable
from keyhouse.cli.parser import Option

if TYPE_CHECKING:
    from keyhouse.attestation import Collateral

PccsUrl = Annotated[
    str,
    Option(
        "--pccs", metavar="URL", help="request the collateral from this PCCS (https://name:port)"
    ),
]
PccsCaFile = Annotated[
    Path | None,
    Option(
        "--pccs-ca", help="the only accepted CA (PEM) for the PCCS (default: the CAs of the system)"
    ),
]


def vendor_root(simulation_root: Path | None) -> bytes:
    """Return the root to pin, DER, as ``trust_files`` does.

    The import is inside the function, because ``trust_files`` takes long to import.
    """
    from keyhouse.client import trust_files

    return trust_files.vendor_root(simulation_root)


def ca_of(pccs_ca: Path | None) -> bytes:
    """Return the PEM of the only accepted CA for the PCCS, or empty bytes for the system's CAs."""
    from keyhouse.client import trust_files

    return trust_files.ca_of(pccs_ca)


def from_pccs(url: str, pccs_ca: Path | None, root_ca: bytes) -> "Callable[[bytes], Collateral]":
    """Return a function that fetches the collateral for a quote; see the SDK's ``from_pccs``.

    Warnings go to standard error.
    """
    from keyhouse.client.trust_files import from_pccs as asking

    return asking(url, ca_of(pccs_ca), root_ca, _warn)


def _warn(text: str) -> None:
    sys.stderr.write(f"warning: {printable(text)}\n")

"""A PCCS on the command line: its options, and the collateral that it has for a quote."""

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
    Option("--pccs", metavar="URL", help="ask this PCCS (https://name:port) for the collateral"),
]
PccsCaFile = Annotated[
    Path | None,
    Option(
        "--pccs-ca", help="the only CA (PEM) that may vouch for the PCCS; default: the system's"
    ),
]


def vendor_root(simulation_root: Path | None) -> bytes:
    """Return the root to pin, DER; see ``trust_files``, which takes long to import."""
    from keyhouse.client import trust_files

    return trust_files.vendor_root(simulation_root)


def ca_of(pccs_ca: Path | None) -> bytes:
    """Return the PEM of the only CA accepted for the PCCS; see ``trust_files``."""
    from keyhouse.client import trust_files

    return trust_files.ca_of(pccs_ca)


def from_pccs(url: str, pccs_ca: Path | None, root_ca: bytes) -> "Callable[[bytes], Collateral]":
    """Return what gives the collateral for a quote, once; as the SDK's ``from_pccs``.

    Warnings go to standard error.
    """
    from keyhouse.client.trust_files import from_pccs as asking

    return asking(url, ca_of(pccs_ca), root_ca, _warn)


def _warn(text: str) -> None:
    sys.stderr.write(f"warning: {printable(text)}\n")

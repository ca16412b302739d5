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
    """Return the vendor's root certificate to pin, DER.

    This is the certificate in the PEM file ``simulation_root``, or Intel's root for None.
    """
    from keyhouse.client import trust_files

    return trust_files.vendor_root(simulation_root)


def ca_of(pccs_ca: Path | None) -> bytes:
    """Return the PEM of the only accepted CA for the PCCS, from the file ``pccs_ca``.

    None results in ``b""``, which means the CAs of the system.
    """
    from keyhouse.client import trust_files

    return trust_files.ca_of(pccs_ca)


def from_pccs(url: str, pccs_ca: Path | None, root_ca: bytes) -> "Callable[[bytes], Collateral]":
    """Return a function that fetches the collateral for a quote from the PCCS at ``url``.

    ``pccs_ca``: the file with the only accepted CA, or None. ``root_ca``: the vendor's root, DER.
    Warnings go to standard error.
    """
    from keyhouse.client.trust_files import from_pccs as asking

    return asking(url, ca_of(pccs_ca), root_ca, _warn)


def _warn(text: str) -> None:
    sys.stderr.write(f"warning: {printable(text)}\n")

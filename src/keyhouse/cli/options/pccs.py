"""A PCCS on the command line: its options, and the collateral that it has for a quote."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from keyhouse.base.errors import RefusedError
from keyhouse.base.pem import certificate_fault
from keyhouse.base.printable import printable
from keyhouse.cli.output.files import read_file
from keyhouse.cli.parser.parameters import Option

if TYPE_CHECKING:
    from keyhouse.attestation import Collateral

__all__ = ["PccsCaFile", "PccsUrl", "ca_of", "cache_folder", "from_pccs", "vendor_root"]

PccsUrl = Annotated[
    str,
    Option("--pccs", metavar="URL", help="ask this PCCS (https://name:port) for the collateral"),
]
PccsCaFile = Annotated[
    Path | None,
    Option(
        "--pccs-ca",
        metavar="FILE",
        help="the only CA (PEM) that may vouch for the PCCS; default: the system's",
    ),
]

_FOLDER: Final = Path("keyhouse") / "collateral"


class RootUnreadableError(RefusedError):
    """The file of the simulation's root is no certificate."""

    code = "root-unreadable"


def vendor_root(simulation_root: Path | None) -> bytes:
    """Return the root to pin, DER: Intel's, or that of a simulated vendor."""
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding

    from keyhouse.attestation import INTEL_SGX_ROOT

    if simulation_root is None:
        return INTEL_SGX_ROOT
    pem = read_file(str(simulation_root))
    try:
        certificate = x509.load_pem_x509_certificate(pem)
    except ValueError:
        raise _no_certificate(simulation_root, pem) from None
    return certificate.public_bytes(Encoding.DER)


def ca_of(pccs_ca: Path | None) -> bytes:
    """Return the PEM of the only CA accepted for the PCCS; empty: those of the system."""
    if pccs_ca is None:
        return b""
    pem = read_file(str(pccs_ca))
    if not pem:  # empty means "not given": then every CA of the system would be accepted
        raise _no_certificate(pccs_ca, pem)
    return pem


def _no_certificate(path: Path, content: bytes) -> RootUnreadableError:
    fault = certificate_fault(content)
    return RootUnreadableError(f"{path} {fault.problem}", hint=fault.hint)


def cache_folder() -> Path | None:
    """Return where fetched collateral is kept, ``keyhouse/collateral`` in the user's cache.

    That is ``$XDG_CACHE_HOME`` or ``$HOME/.cache``; with neither, nothing is kept.
    """
    for variable, below in (("XDG_CACHE_HOME", ""), ("HOME", ".cache")):
        value = os.environ.get(variable, "")
        if value.startswith("/"):
            return Path(value) / below / _FOLDER
    return None


def from_pccs(url: str, pccs_ca: Path | None, root_ca: bytes) -> "Callable[[bytes], Collateral]":
    """Return what gives the collateral for a quote, once: from the user's cache or the PCCS.

    Warnings go to standard error. Raises ``ConfigurationRefusedError`` at once; what is returned
    raises ``QuoteRefusedError`` and ``CollateralUnavailableError``.
    """
    import asyncio

    from keyhouse.attestation.collateral.pccs import Pccs
    from keyhouse.attestation.collateral.source import PccsSource

    pccs = Pccs(url, ca_of(pccs_ca))

    async def ask(quote: bytes) -> "Collateral":
        async with PccsSource(pccs, root_ca, cache_folder(), warn=_warn) as source:
            return await source.collateral_for(quote)

    return lambda quote: asyncio.run(ask(quote))


def _warn(text: str) -> None:
    sys.stderr.write(f"warning: {printable(text)}\n")

"""Which platform ``--platform auto`` means on this machine: one of hardware, or none."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from keyhouse.attestation import PlatformMissing
from keyhouse.attestation.platforms.gramine import DEV_ATTESTATION
from keyhouse.attestation.platforms.tdx import TSM_REPORTS

__all__ = ["platform_name"]

_PLACES: Final = {"gramine": DEV_ATTESTATION, "tdx": TSM_REPORTS}


def platform_name(wanted: str, exists: Callable[[Path], bool] = Path.exists) -> str:
    """Return the platform to open for ``wanted``. A simulation is never found by looking.

    Raises:
        PlatformMissing: ``auto``, and the machine shows no platform.
    """
    if wanted != "auto":
        return wanted
    for name, place in _PLACES.items():
        if exists(place):
            return name
    looked_for = " nor ".join(f"{name} ({place})" for name, place in _PLACES.items())
    raise PlatformMissing(
        f"no platform was found here: neither {looked_for}",
        hint="start it in an enclave; or, to try it out without any protection, say"
        " --platform simulation",
    )

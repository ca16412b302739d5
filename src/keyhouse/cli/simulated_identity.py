"""Who a simulated machine is to say that a workload is, out of a file."""

from pathlib import Path

from keyhouse.attestation import Measurements, read_expected_identity
from keyhouse.launcher import LaunchRefused

__all__ = ["simulated_identity"]

_LARGEST = 65_536
_UNSET = bytes(32)


def simulated_identity(path: Path | None) -> Measurements | None:
    """Return the measurements in the attestation file ``path``; None: the coordinator's.

    What the file leaves out is zero. Raises ``LaunchRefused`` if it cannot be read and
    ``ConfigurationRefused`` for one that would fit anybody.
    """
    if path is None:
        return None
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST)
    except OSError as error:
        reason = (error.strerror or "unknown reason").lower()
        raise LaunchRefused(f"cannot read {path}: {reason}") from None
    found = read_expected_identity(content)
    return Measurements(
        unique_id=found.unique_id or _UNSET,
        signer_id=found.signer_id or _UNSET,
        product_id=found.product_id,
        security_version=found.security_version,
    )

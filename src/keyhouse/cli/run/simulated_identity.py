"""Who a simulated machine is to say that a workload is, out of a file."""

from pathlib import Path

from keyhouse.attestation import Measurements, read_expected_identity
from keyhouse.cli.run.file import read_small_file

__all__ = ["simulated_identity"]

_UNSET = bytes(32)


def simulated_identity(path: Path | None) -> Measurements | None:
    """Return the measurements in the attestation file ``path``; None: the coordinator's.

    What the file leaves out is zero. Raises ``LaunchRefused`` if it cannot be read and
    ``ConfigurationRefused`` for one that would fit anybody.
    """
    if path is None:
        return None
    found = read_expected_identity(read_small_file(path))
    return Measurements(
        unique_id=found.unique_id or _UNSET,
        signer_id=found.signer_id or _UNSET,
        product_id=found.product_id,
        security_version=found.security_version,
    )

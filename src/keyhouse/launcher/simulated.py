"""The identity that a simulated machine states for the workload."""

from pathlib import Path
from typing import Final

from keyhouse.attestation import Measurements, read_expected_identity
from keyhouse.base.named_files import read_named_file
from keyhouse.launcher.errors import LaunchRefusedError
from keyhouse.wire.vm_identity import VmIdentity

_LARGEST: Final = 65_536  # bytes
_UNSET: Final = bytes(32)


def simulated_identity(path: Path | None) -> Measurements | VmIdentity | None:
    """Return what the attestation file ``path`` names: an enclave or a confidential VM.

    None: the coordinator. Fields of an enclave that the file leaves out are zero. Raises
    ``LaunchRefusedError`` if it cannot be read, and ``ConfigurationRefusedError`` if any enclave
    would match it.
    """
    if path is None:
        return None
    found = read_expected_identity(read_named_file(path, _LARGEST, LaunchRefusedError))
    if found.vm is not None:
        return found.vm
    return Measurements(
        unique_id=found.unique_id or _UNSET,
        signer_id=found.signer_id or _UNSET,
        product_id=found.product_id,
        security_version=found.security_version,
    )

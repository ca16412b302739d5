"""A software DCAP platform for trials and tests: true quotes under its own root."""

from keyhouse_simulation.folder import FolderDamagedError, add_machine, open_platform
from keyhouse_simulation.machine import Machine, make_machine
from keyhouse_simulation.parameters import (
    COORDINATOR,
    ConfidentialVm,
    Enclave,
    Endorsement,
    Lists,
    Parameters,
    Pck,
    QeIdentity,
    QuotingEnclave,
    SnpVm,
    TcbInfo,
    TdxLevel,
    TdxQuoteForm,
)
from keyhouse_simulation.platform import SimulatedPlatform

__all__ = [
    "COORDINATOR",
    "ConfidentialVm",
    "Enclave",
    "Endorsement",
    "FolderDamagedError",
    "Lists",
    "Machine",
    "Parameters",
    "Pck",
    "QeIdentity",
    "QuotingEnclave",
    "SimulatedPlatform",
    "SnpVm",
    "TcbInfo",
    "TdxLevel",
    "TdxQuoteForm",
    "add_machine",
    "make_machine",
    "open_platform",
]

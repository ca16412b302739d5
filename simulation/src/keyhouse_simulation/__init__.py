"""A software DCAP platform: true quotes under a root of its own, for trying out and testing."""

from keyhouse_simulation.folder import FolderDamagedError, open_platform
from keyhouse_simulation.machine import Machine, make_machine
from keyhouse_simulation.parameters import (
    COORDINATOR,
    ConfidentialVm,
    Enclave,
    Lists,
    Parameters,
    Pck,
    QeIdentity,
    QuotingEnclave,
    TcbInfo,
    TdxLevel,
    TdxQuoteForm,
)
from keyhouse_simulation.platform import SimulatedPlatform

__all__ = [
    "COORDINATOR",
    "ConfidentialVm",
    "Enclave",
    "FolderDamagedError",
    "Lists",
    "Machine",
    "Parameters",
    "Pck",
    "QeIdentity",
    "QuotingEnclave",
    "SimulatedPlatform",
    "TcbInfo",
    "TdxLevel",
    "TdxQuoteForm",
    "make_machine",
    "open_platform",
]

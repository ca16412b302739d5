"""A software DCAP platform for trials and tests: true quotes under its own root."""

from keyhouse_simulation.folder import FolderDamagedError, add_machine, open_platform
from keyhouse_simulation.machine import Machine, make_machine
from keyhouse_simulation.parameters import (
    COORDINATOR,
    KeyEndorsement,
    Lists,
    Pck,
    QeIdentity,
    QuotedEnclave,
    QuotedSnp,
    QuotedTd,
    QuoteParameters,
    QuotingEnclave,
    TcbInfo,
    TdxLevel,
    TdxQuoteForm,
)
from keyhouse_simulation.platform import SimulatedPlatform

__all__ = [
    "COORDINATOR",
    "FolderDamagedError",
    "KeyEndorsement",
    "Lists",
    "Machine",
    "Pck",
    "QeIdentity",
    "QuoteParameters",
    "QuotedEnclave",
    "QuotedSnp",
    "QuotedTd",
    "QuotingEnclave",
    "SimulatedPlatform",
    "TcbInfo",
    "TdxLevel",
    "TdxQuoteForm",
    "add_machine",
    "make_machine",
    "open_platform",
]

"""What the simulated platform says about itself. Tests bend one value and run the real verifier.

The defaults make quotes that the production verifier accepts as ``UpToDate``. All names and
numbers are plainly artificial, but one: the quoting enclave's vendor has to be Intel's, for
quotes of other vendors are refused.
"""

from datetime import timedelta

import msgspec

from keyhouse.attestation import Measurements, TcbStatus

__all__ = [
    "COORDINATOR",
    "Enclave",
    "Lists",
    "Parameters",
    "Pck",
    "QeIdentity",
    "QuotingEnclave",
    "TcbInfo",
]

COORDINATOR = Measurements(
    unique_id=b"SIMULATED KEYHOUSE, NOT MEASURED",
    signer_id=b"SIMULATED SIGNER, PROVES NOTHING",
    product_id=0x5111,
    security_version=1,
)
"""Who the simulated coordinator says it is: readable ASCII instead of hashes."""

_CPU_SVN = bytes([2]) * 16
_PCE_SVN = 11
_FMSPC = b"\x51\x11\x51\x11\x51\x11"
_QE_SIGNER = b"SIMULATED QUOTING ENCLAVE SIGNER"


class Enclave(msgspec.Struct, frozen=True, kw_only=True):
    """The enclave that a quote is about."""

    measurements: Measurements = COORDINATOR
    debug: bool = False


class Pck(msgspec.Struct, frozen=True, kw_only=True):
    """What the PCK certificate says of the machine. Fixed when the machine is made."""

    ppid: bytes = b"SIMULATED PPID 0"
    cpu_svn: bytes = _CPU_SVN
    pce_svn: int = _PCE_SVN
    pce_id: bytes = b"\0\0"
    fmspc: bytes = _FMSPC


class TcbInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What the collateral says of this kind of machine; signed."""

    id: str = "SGX"
    version: int = 3
    fmspc: bytes = _FMSPC
    pce_id: bytes = b"\0\0"
    tcb_type: int = 0
    evaluation_number: int = 1
    cpu_svn: bytes = _CPU_SVN  # of the one level that it knows
    pce_svn: int = _PCE_SVN
    status: TcbStatus = TcbStatus.UP_TO_DATE
    advisories: tuple[str, ...] = ()
    issued_ago: timedelta = timedelta(days=1)
    valid_for: timedelta = timedelta(days=365)


class QeIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """What the collateral says of the quoting enclave; signed."""

    id: str = "QE"
    version: int = 2
    evaluation_number: int = 1
    misc_select: bytes = b"\0\0\0\0"
    attributes: bytes = b"\x11".ljust(16, b"\0")
    signer: bytes = _QE_SIGNER
    product_id: int = 1
    security_version: int = 8  # of the one level that it knows
    status: TcbStatus = TcbStatus.UP_TO_DATE
    issued_ago: timedelta = timedelta(days=1)
    valid_for: timedelta = timedelta(days=365)


class QuotingEnclave(msgspec.Struct, frozen=True, kw_only=True):
    """What the quoting enclave's own report says; signed by the PCK key."""

    vendor: bytes = bytes.fromhex("939a7233f79c4ca9940a0db3957f0607")
    misc_select: int = 0
    attributes: bytes = b"\x15".ljust(8, b"\0") + b"\xe7".ljust(8, b"\0")
    unique_id: bytes = b"SIMULATED QUOTING ENCLAVE, EMPTY"
    signer: bytes = _QE_SIGNER
    product_id: int = 1
    security_version: int = 8
    authentication_data: bytes = bytes(range(32))


class Lists(msgspec.Struct, frozen=True, kw_only=True):
    """The revocation lists; signed by the root and the PCK CA."""

    revokes_pck: bool = False
    revokes_pck_ca: bool = False
    revokes_tcb_signer: bool = False
    number: int = 1
    issued_ago: timedelta = timedelta(days=1)
    valid_for: timedelta = timedelta(days=365)


class Parameters(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that can be bent."""

    enclave: Enclave = Enclave()
    tcb_info: TcbInfo = TcbInfo()
    qe_identity: QeIdentity = QeIdentity()
    quoting_enclave: QuotingEnclave = QuotingEnclave()
    lists: Lists = Lists()

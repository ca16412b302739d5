"""What the simulated platform says about itself. Tests bend one value and run the real verifier.

The defaults make quotes that the production verifier accepts as ``UpToDate``. All names and
numbers are plainly artificial, but one: the quoting enclave's vendor has to be Intel's, for
quotes of other vendors are refused.
"""

from datetime import UTC, datetime, timedelta
from enum import Enum

import msgspec

from keyhouse.attestation import Measurements, SnpTcb, TcbStatus
from keyhouse.attestation.platforms.find import SIMULATED_AMD

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
_TEE_TCB_SVN = bytes([5, 1, 2]).ljust(16, b"\0")  # module's version 5 of its line 1, microcode
_REGISTER = 48


class Enclave(msgspec.Struct, frozen=True, kw_only=True):
    """The enclave that a quote is about."""

    measurements: Measurements = COORDINATOR
    debug: bool = False


class TdxQuoteForm(Enum):
    """How a quote of a confidential VM is written: its version, and for 5 the type of its body."""

    V4 = (4, 0)
    V5_REPORT_10 = (5, 2)
    V5_REPORT_15 = (5, 3)


class ConfidentialVm(msgspec.Struct, frozen=True, kw_only=True):
    """The confidential VM that a quote is about, and the TDX module that runs it."""

    form: TdxQuoteForm = TdxQuoteForm.V4
    tee_tcb_svn: bytes = _TEE_TCB_SVN
    mrseam: bytes = b"SIMULATED TDX MODULE, NOT MEASURED".ljust(_REGISTER, b".")
    mrsignerseam: bytes = bytes(_REGISTER)  # Intel's
    seam_attributes: bytes = bytes(8)
    td_attributes: bytes = bytes.fromhex("0000001000000000")  # SEPT_VE_DISABLE
    xfam: bytes = bytes.fromhex("e702060000000000")
    mrtd: bytes = b"SIMULATED CONFIDENTIAL VM, NOT MEASURED".ljust(_REGISTER, b".")
    mrconfigid: bytes = bytes(_REGISTER)
    mrowner: bytes = bytes(_REGISTER)
    mrownerconfig: bytes = bytes(_REGISTER)
    rtmrs: tuple[bytes, bytes, bytes, bytes] = (bytes(_REGISTER),) * 4
    tee_tcb_svn2: bytes = _TEE_TCB_SVN  # this and the next in V5_REPORT_15 alone
    mrservicetd: bytes = bytes(_REGISTER)


class SnpVm(msgspec.Struct, frozen=True, kw_only=True):
    """The confidential VM of SEV-SNP that a report is about, and its platform's firmware."""

    version: int = 3
    guest_svn: int = 0
    policy: bytes = bytes.fromhex("1f00030000000000")  # SMT, ABI 0.31
    family_id: bytes = bytes(16)
    image_id: bytes = bytes(16)
    vmpl: int = 0
    platform_info: int = 0b10_0101  # SMT, ECC, no aliased memory
    signer_info: int = 0  # signed by the VCEK; 4: VLEK
    measurement: bytes = b"SIMULATED CONFIDENTIAL VM, NOT MEASURED".ljust(_REGISTER, b".")
    host_data: bytes = bytes(32)
    id_key_digest: bytes = bytes(_REGISTER)
    author_key_digest: bytes = bytes(_REGISTER)
    model: bytes = bytes.fromhex("191101")  # CPUID's family, model and stepping: Genoa
    reported_tcb: bytes = bytes.fromhex("0a00000000001754")
    committed_tcb: bytes = bytes.fromhex("0a00000000001754")
    current_tcb: bytes = bytes.fromhex("0a00000000001754")
    launch_tcb: bytes = bytes.fromhex("0a00000000001754")


class Endorsement(msgspec.Struct, frozen=True, kw_only=True):
    """What the certificate of the key that signs reports says; ``chip`` is the machine's."""

    name: str = "SEV-VCEK"
    product: str = "Genoa-B1"
    tcb: SnpTcb = SIMULATED_AMD.tcb
    chip: bytes = b""
    provider: str = ""
    begins: datetime = datetime(2020, 1, 1, tzinfo=UTC)
    ends: datetime = datetime(2120, 1, 1, tzinfo=UTC)


class Pck(msgspec.Struct, frozen=True, kw_only=True):
    """What the PCK certificate says of the machine. Fixed when the machine is made."""

    ppid: bytes = b"SIMULATED PPID 0"
    cpu_svn: bytes = _CPU_SVN
    pce_svn: int = _PCE_SVN
    pce_id: bytes = b"\0\0"
    fmspc: bytes = _FMSPC


class TdxLevel(msgspec.Struct, frozen=True, kw_only=True):
    """What TCB info for TDX says beside that for SGX."""

    tee_tcb_svn: bytes = bytes([5, 0, 2]).ljust(16, b"\0")  # of the one level that it knows
    module_signer: bytes = bytes(_REGISTER)
    module_attributes: bytes = bytes(8)
    module_line: int = 1  # the line of modules that it knows
    module_version: int = 5  # of the one level that it knows of that line
    module_status: TcbStatus = TcbStatus.UP_TO_DATE


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
    tdx: TdxLevel | None = None


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
    """Everything that can be bent: of enclaves, and with ``td`` of confidential VMs."""

    enclave: Enclave = Enclave()
    tcb_info: TcbInfo = TcbInfo()
    qe_identity: QeIdentity = QeIdentity()
    quoting_enclave: QuotingEnclave = QuotingEnclave()
    td: ConfidentialVm = ConfidentialVm()
    snp: SnpVm = SnpVm()
    td_tcb_info: TcbInfo = TcbInfo(id="TDX", tdx=TdxLevel())
    td_qe_identity: QeIdentity = QeIdentity(id="TD_QE", product_id=2)
    td_quoting_enclave: QuotingEnclave = QuotingEnclave(product_id=2)
    lists: Lists = Lists()

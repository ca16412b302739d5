"""The contents of the simulated platform's quotes and collateral.

Tests change single values and run the real verifier. The production verifier accepts quotes with
the defaults as ``UpToDate``. All names and numbers are obviously artificial, with one exception:
the quoting enclave's vendor must be Intel, because quotes of other vendors are refused.
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
"""The identity of the simulated coordinator: readable ASCII instead of hashes."""

_CPU_SVN = bytes([2]) * 16
_PCE_SVN = 11
_FMSPC = b"\x51\x11\x51\x11\x51\x11"
_QE_SIGNER = b"SIMULATED QUOTING ENCLAVE SIGNER"
_TEE_TCB_SVN = bytes([5, 1, 2]).ljust(16, b"\0")  # module version 5 of line 1, and microcode
_REGISTER = 48


class QuotedEnclave(msgspec.Struct, frozen=True, kw_only=True):
    """The enclave in a quote."""

    measurements: Measurements = COORDINATOR
    debug: bool = False


class TdxQuoteForm(Enum):
    """The version of a confidential VM's quote, and for version 5 the type of the body."""

    V4 = (4, 0)
    V5_REPORT_10 = (5, 2)
    V5_REPORT_15 = (5, 3)


class QuotedTd(msgspec.Struct, frozen=True, kw_only=True):
    """The confidential VM in a quote, and the TDX module below this VM."""

    form: TdxQuoteForm = TdxQuoteForm.V4
    tee_tcb_svn: bytes = _TEE_TCB_SVN
    mrseam: bytes = b"SIMULATED TDX MODULE, NOT MEASURED".ljust(_REGISTER, b".")
    mrsignerseam: bytes = bytes(_REGISTER)  # zeros stand for Intel
    seam_attributes: bytes = bytes(8)
    td_attributes: bytes = bytes.fromhex("0000001000000000")  # SEPT_VE_DISABLE
    xfam: bytes = bytes.fromhex("e702060000000000")
    mrtd: bytes = b"SIMULATED CONFIDENTIAL VM, NOT MEASURED".ljust(_REGISTER, b".")
    mrconfigid: bytes = bytes(_REGISTER)
    mrowner: bytes = bytes(_REGISTER)
    mrownerconfig: bytes = bytes(_REGISTER)
    rtmrs: tuple[bytes, bytes, bytes, bytes] = (bytes(_REGISTER),) * 4
    tee_tcb_svn2: bytes = _TEE_TCB_SVN  # this and the next field are only in V5_REPORT_15
    mrservicetd: bytes = bytes(_REGISTER)


class QuotedSnp(msgspec.Struct, frozen=True, kw_only=True):
    """The SEV-SNP confidential VM in a report, and its platform's firmware."""

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


class KeyEndorsement(msgspec.Struct, frozen=True, kw_only=True):
    """The content of the certificate for the key of reports. ``chip`` is the machine's CHIP_ID."""

    name: str = "SEV-VCEK"
    product: str = "Genoa-B1"
    tcb: SnpTcb = SIMULATED_AMD.tcb
    chip: bytes = b""
    provider: str = ""
    begins: datetime = datetime(2020, 1, 1, tzinfo=UTC)
    ends: datetime = datetime(2120, 1, 1, tzinfo=UTC)


class Pck(msgspec.Struct, frozen=True, kw_only=True):
    """The content of the machine's PCK certificate. Fixed at the generation of the machine."""

    ppid: bytes = b"SIMULATED PPID 0"
    cpu_svn: bytes = _CPU_SVN
    pce_svn: int = _PCE_SVN
    pce_id: bytes = b"\0\0"
    fmspc: bytes = _FMSPC


class TdxLevel(msgspec.Struct, frozen=True, kw_only=True):
    """The part of TCB info for TDX, in addition to the part for SGX."""

    tee_tcb_svn: bytes = bytes([5, 0, 2]).ljust(16, b"\0")  # of the single level
    module_signer: bytes = bytes(_REGISTER)
    module_attributes: bytes = bytes(8)
    module_line: int = 1  # the single line of modules
    module_version: int = 5  # of the single level of this line
    module_status: TcbStatus = TcbStatus.UP_TO_DATE


class TcbInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The collateral about this kind of machine; signed."""

    id: str = "SGX"
    version: int = 3
    fmspc: bytes = _FMSPC
    pce_id: bytes = b"\0\0"
    tcb_type: int = 0
    evaluation_number: int = 1
    cpu_svn: bytes = _CPU_SVN  # of the single level
    pce_svn: int = _PCE_SVN
    status: TcbStatus = TcbStatus.UP_TO_DATE
    advisories: tuple[str, ...] = ()
    issued_ago: timedelta = timedelta(days=1)
    valid_for: timedelta = timedelta(days=365)
    tdx: TdxLevel | None = None


class QeIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """The collateral about the quoting enclave; signed."""

    id: str = "QE"
    version: int = 2
    evaluation_number: int = 1
    misc_select: bytes = b"\0\0\0\0"
    attributes: bytes = b"\x11".ljust(16, b"\0")
    signer: bytes = _QE_SIGNER
    product_id: int = 1
    security_version: int = 8  # of the single level
    status: TcbStatus = TcbStatus.UP_TO_DATE
    issued_ago: timedelta = timedelta(days=1)
    valid_for: timedelta = timedelta(days=365)


class QuotingEnclave(msgspec.Struct, frozen=True, kw_only=True):
    """The quoting enclave's own report; signed by the PCK key."""

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


class QuoteParameters(msgspec.Struct, frozen=True, kw_only=True):
    """All variable contents: of enclaves, and with ``td`` of confidential VMs."""

    enclave: QuotedEnclave = QuotedEnclave()
    tcb_info: TcbInfo = TcbInfo()
    qe_identity: QeIdentity = QeIdentity()
    quoting_enclave: QuotingEnclave = QuotingEnclave()
    td: QuotedTd = QuotedTd()
    snp: QuotedSnp = QuotedSnp()
    td_tcb_info: TcbInfo = TcbInfo(id="TDX", tdx=TdxLevel())
    td_qe_identity: QeIdentity = QeIdentity(id="TD_QE", product_id=2)
    td_quoting_enclave: QuotingEnclave = QuotingEnclave(product_id=2)
    lists: Lists = Lists()

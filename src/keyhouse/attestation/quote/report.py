"""The report inside a quote: the measurements of the processor.

Offsets follow Intel's quote format, counted from the start of the report.
"""

from keyhouse.attestation.quote.form import QuoteForm, Tee
from keyhouse.attestation.quote.snp import SnpMeasurements, read_snp_report
from keyhouse.attestation.quote.snp_form import SNP_REPORT
from keyhouse.attestation.quote.td import TdMeasurements
from keyhouse.base.readable import Readable
from keyhouse.wire.snp import is_debugged

_REPORT_AT = 48
_TDX_5_REPORT_AT = 54  # after body type and size
_TDX_5 = 5
_SGX_DEBUG = 0x02
_TDX_1_0_LENGTH = 584
_TDX_1_5_LENGTH = 648


class Report(Readable, frozen=True):
    """The values of a report for comparison with identities.

    For TDX and SNP the four values of SGX are empty or 0, and ``td`` or ``snp`` is set.
    """

    report_data: bytes  # 64 bytes
    debug: bool
    mrenclave: bytes = b""  # 32 bytes
    mrsigner: bytes = b""  # 32 bytes
    isvprodid: int = 0
    isvsvn: int = 0
    td: TdMeasurements | None = None
    snp: SnpMeasurements | None = None


def read_report(form: QuoteForm) -> Report:
    """Return the report of a quote with a verified length."""
    if form.tee is Tee.SGX:
        return read_sgx_report(form.raw[_REPORT_AT:])
    if form.tee is Tee.SNP:
        return _snp(form.raw[:SNP_REPORT])
    if form.raw[0] != _TDX_5:
        return _tdx(form.raw[_REPORT_AT : _REPORT_AT + _TDX_1_0_LENGTH])
    size = int.from_bytes(form.raw[_TDX_5_REPORT_AT - 4 : _TDX_5_REPORT_AT], "little")
    return _tdx(form.raw[_TDX_5_REPORT_AT : _TDX_5_REPORT_AT + size])


def read_sgx_report(report: bytes) -> Report:
    """Return the values of an SGX report of at least 384 bytes. Later bytes are ignored."""
    return Report(
        report_data=report[320:384],
        debug=bool(report[48] & _SGX_DEBUG),
        mrenclave=report[64:96],
        mrsigner=report[128:160],
        isvprodid=int.from_bytes(report[256:258], "little"),
        isvsvn=int.from_bytes(report[258:260], "little"),
    )


def _snp(raw: bytes) -> Report:
    report = read_snp_report(raw)
    return Report(
        report.report_data, debug=is_debugged(report.measured.policy), snp=report.measured
    )


def _tdx(report: bytes) -> Report:
    return Report(
        report_data=report[520:584],
        debug=report[120] != 0,  # debug or profiling: both let the host read the VM
        td=TdMeasurements(
            mrtd=report[136:184],
            rtmrs=(report[328:376], report[376:424], report[424:472], report[472:520]),
            mr_config_id=report[184:232],
            mr_owner=report[232:280],
            mr_owner_config=report[280:328],
            mr_seam=report[16:64],
            attributes=report[120:128],
            xfam=report[128:136],
            mr_service_td=report[600:648] if len(report) == _TDX_1_5_LENGTH else b"",
        ),
    )

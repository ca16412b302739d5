"""The report inside a quote: what the processor measured.

Offsets are those of Intel's quote format, counted from the start of the report.
"""

import msgspec

from keyhouse.attestation.quote.form import QuoteForm, Tee
from keyhouse.attestation.quote.verdict import TdMeasurements

__all__ = ["Report", "read_report", "read_sgx_report"]

_REPORT_AT = 48
_TDX_5_REPORT_AT = 54  # body type and size come before it
_TDX_5 = 5
_SGX_DEBUG = 0x02
_TD_DEBUG = 0x01


class Report(msgspec.Struct, frozen=True):
    """The values of a report that identities are compared with."""

    report_data: bytes
    debug: bool
    mrenclave: bytes = b""
    mrsigner: bytes = b""
    isvprodid: int = 0
    isvsvn: int = 0
    td: TdMeasurements | None = None


def read_report(form: QuoteForm) -> Report:
    """Return the report of a quote of exact length."""
    if form.tee is Tee.SGX:
        return read_sgx_report(form.raw[_REPORT_AT:])
    version = form.raw[0]
    return _tdx(form.raw[_TDX_5_REPORT_AT if version == _TDX_5 else _REPORT_AT :])


def read_sgx_report(report: bytes) -> Report:
    """Return what is in an SGX report, of 384 bytes or more; the rest is not read."""
    return Report(
        report_data=report[320:384],
        debug=bool(report[48] & _SGX_DEBUG),
        mrenclave=report[64:96],
        mrsigner=report[128:160],
        isvprodid=int.from_bytes(report[256:258], "little"),
        isvsvn=int.from_bytes(report[258:260], "little"),
    )


def _tdx(report: bytes) -> Report:
    rtmrs = (report[328:376], report[376:424], report[424:472], report[472:520])
    return Report(
        report_data=report[520:584],
        debug=bool(report[120] & _TD_DEBUG),
        td=TdMeasurements(mrtd=report[136:184], rtmrs=rtmrs),
    )

"""The bytes of a quote of SGX or TDX: its exact length, and the measurements in its report.

::

    SGX, version 3: header 48 | report 384 | length 4 | signature data
    TDX, version 4: header 48 | report 584 | length 4 | signature data
    TDX, version 5: header 48 | type 2 | size 4 | report | length 4 | signature data

An SGX quote may have a transport header of 16 bytes: u32 1, u32 2, u64 length of the quote. All
numbers are little-endian. The verifier's library ignores bytes after the quote. The root key's
signature of the route ``sign-quote`` must not cover such bytes, so this module checks every length
up to the last byte. Offsets in a report follow Intel's quote format, counted from the start of the
report.
"""

import struct

from keyhouse.attestation.kinds.dcap.td import TdMeasurements
from keyhouse.attestation.quote.report import QuoteForm, Report, Tee, malformed
from keyhouse.base.byte_reader import ByteReader

_TRANSPORT_START = struct.pack("<II", 1, 2)
# Sizes in bytes, types and bits: appendix A of Intel's "DCAP Quoting Library API" and the
# SGX chapters of Intel's SDM, volume 3D. The transport header is Open Enclave's.
_TRANSPORT_HEADER = 16
_HEADER = struct.Struct("<HHIHH")  # version, key type, TEE type, QE SVN, PCE SVN
_HEADER_LENGTH = 48
_SGX_REPORT = 384
_TDX_REPORT_10 = 584
_TDX_BODIES = {2: 584, 3: 648}  # of version 5: size by body type
_SIGNATURE_AND_KEY = 64 + 64
_QE_REPORT_AND_SIGNATURE = 384 + 64
_ECDSA_P256 = 2
_CHAIN_PEM = 5
_QE_REPORT_DATA = 6

# Bytes: header (48), body type (2) and body size (4), Intel's DCAP quote format.
_TDX_5_REPORT_AT = 54
_TDX_5 = 5
_SGX_DEBUG = 0x02  # bit DEBUG of the attributes, Intel SDM volume 3D
_TDX_1_5_LENGTH = 648  # bytes of TD report 1.5 in a quote, Intel's DCAP quote format


def has_transport_header(quote: bytes) -> bool:
    """Return whether ``quote`` begins like a transport header."""
    return quote.startswith(_TRANSPORT_START)


def add_transport_header(raw: bytes) -> bytes:
    """Return ``raw`` with the 16-byte transport header."""
    return _TRANSPORT_START + struct.pack("<Q", len(raw)) + raw


def without_transport_header(quote: bytes) -> bytes:
    """Return the bytes after the transport header. Raises ``QuoteRefusedError``."""
    raw = quote[_TRANSPORT_HEADER:]
    if len(quote) < _TRANSPORT_HEADER:
        raise malformed("the data end inside the transport header")
    length = int.from_bytes(quote[len(_TRANSPORT_START) : _TRANSPORT_HEADER], "little")
    if len(raw) != length:
        raise malformed(f"the transport header states {length} bytes, but {len(raw)} follow")
    return raw


def read_dcap_form(raw: bytes) -> QuoteForm:
    """Return the parts of a raw quote. Raises ``LayoutError`` or ``QuoteRefusedError``."""
    fields = ByteReader(raw, "little")
    version, key_type, tee, qe_svn, pce_svn = _HEADER.unpack(fields.read(12, "header"))
    fields.read(_HEADER_LENGTH - _HEADER.size, "header")
    if key_type != _ECDSA_P256:
        raise malformed("the attestation key is not ECDSA P-256")
    match version, tee:
        case 3, 0:
            if not (qe_svn and pce_svn):
                raise malformed("the QE and PCE versions must not be 0")
            fields.read(_SGX_REPORT, "report")
            return QuoteForm(raw, Tee.SGX, _sgx_chain(_signature_data(fields)))
        case 4, 0x81:
            fields.read(_TDX_REPORT_10, "report")
        case 5, 0x81:
            _skip_tdx_body(fields)
        case _:
            raise malformed("expected a quote of SGX (3), TDX (4, 5), or a report of SNP (2, 3, 5)")
    return QuoteForm(raw, Tee.TDX, _tdx_chain(_signature_data(fields)))


def _skip_tdx_body(fields: ByteReader) -> None:
    kind = fields.number(2, "body type")
    size = fields.number(4, "body size")
    if _TDX_BODIES.get(kind) != size:
        raise malformed("the body size does not fit the body type")
    fields.read(size, "report")


def _signature_data(fields: ByteReader) -> ByteReader:
    length = fields.number(4, "signature length")
    data = fields.read(length, "signature data")
    fields.finish("signature data")
    return ByteReader(data, "little")


def _sgx_chain(fields: ByteReader) -> bytes:
    fields.read(_SIGNATURE_AND_KEY, "signature")
    return _certified_chain(fields)


def _tdx_chain(fields: ByteReader) -> bytes:
    fields.read(_SIGNATURE_AND_KEY, "signature")
    if fields.number(2, "certification type") != _QE_REPORT_DATA:
        raise malformed("the certification data are not of type 6")
    inner = ByteReader(fields.framed(4, "certification data"), "little")
    fields.finish("certification data")
    return _certified_chain(inner)


def _certified_chain(fields: ByteReader) -> bytes:
    fields.read(_QE_REPORT_AND_SIGNATURE, "QE report")
    fields.framed(2, "authentication data")
    if fields.number(2, "certification type") != _CHAIN_PEM:
        raise malformed("the quote does not carry its PCK certificate chain (type 5)")
    chain = fields.framed(4, "certificate chain")
    fields.finish("certificate chain")
    return chain


def read_dcap_report(form: QuoteForm) -> Report:
    """Return the report in ``form``, a quote of SGX or TDX. No signature is verified."""
    if form.tee is Tee.SGX:
        return read_sgx_report(form.raw[_HEADER_LENGTH:])
    if form.raw[0] != _TDX_5:
        return _tdx(form.raw[_HEADER_LENGTH : _HEADER_LENGTH + _TDX_REPORT_10])
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


def _tdx(report: bytes) -> Report:
    return Report(
        report_data=report[520:584],
        debug=report[120] != 0,  # debug or profiling: both let the host read the VM
        measurements=TdMeasurements(
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

"""The forms of a quote, and its exact length.

::

    SGX, version 3: header 48 | report 384 | length 4 | signature data
    TDX, version 4: header 48 | report 584 | length 4 | signature data
    TDX, version 5: header 48 | type 2 | size 4 | report | length 4 | signature data
    SNP:            report 1,184 | table of certificates (``snp_form``)

An SGX quote may have a transport header of 16 bytes: u32 1, u32 2, u64 length of the quote. All
numbers are little-endian. The verifier's library ignores bytes after the quote. The signature of
``sign-quote`` must not cover such bytes, so this module checks every length up to the last byte.
"""

import struct
from enum import StrEnum

import msgspec

from keyhouse.attestation.errors import QuoteProblem, QuoteRefusedError
from keyhouse.attestation.quote.snp import read_snp_report
from keyhouse.attestation.quote.snp_form import SNP_REPORT, read_table, starts_snp_report
from keyhouse.base.byte_reader import ByteReader, LayoutError

MAX_QUOTE = 65_536
"""Maximum length in bytes of a quote. Real quotes have about 5,000."""

_TRANSPORT_START = struct.pack("<II", 1, 2)
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


class Tee(StrEnum):
    """The kind of environment that made the quote."""

    SGX = "sgx"
    TDX = "tdx"
    SNP = "snp"

    @property
    def in_words(self) -> str:
        """What such an environment is, in words."""
        return "an SGX enclave" if self is Tee.SGX else f"a confidential VM ({self.upper()})"


class QuoteForm(msgspec.Struct, frozen=True):
    """A whole quote, split along its lengths. Nothing is verified."""

    raw: bytes  # without the transport header, of exact length
    tee: Tee
    chain: bytes  # its PCK certificate chain: PEM, leaf first; SNP: the table


def malformed(problem: str) -> QuoteRefusedError:
    """Return the refusal of a malformed quote."""
    return QuoteRefusedError(QuoteProblem.MALFORMED, f"the quote is malformed: {problem}")


def read_form(quote: bytes) -> QuoteForm:
    """Return ``quote`` without a transport header, with a verified exact length.

    Raises ``QuoteRefusedError`` for any bytes except one whole quote of SGX, TDX or SNP. Source:
    wire reference, "Quote bytes".
    """
    if not quote:
        raise malformed("it is empty")
    if len(quote) > MAX_QUOTE:
        raise malformed(f"it has more than {MAX_QUOTE} bytes")
    if not quote.startswith(_TRANSPORT_START):
        return _read_raw(quote)
    form = _read_raw(_without_header(quote))
    if form.tee is not Tee.SGX:
        raise malformed("only SGX quotes have a transport header")
    return form


def add_header(raw: bytes) -> bytes:
    """Return ``raw``, an exact SGX quote, with the 16-byte transport header."""
    if _read_raw(raw).tee is not Tee.SGX:
        raise malformed("only SGX quotes have a transport header")
    return _TRANSPORT_START + struct.pack("<Q", len(raw)) + raw


def _without_header(quote: bytes) -> bytes:
    raw = quote[_TRANSPORT_HEADER:]
    if len(quote) < _TRANSPORT_HEADER:
        raise malformed("it ends inside its transport header")
    length = int.from_bytes(quote[len(_TRANSPORT_START) : _TRANSPORT_HEADER], "little")
    if len(raw) != length:
        raise malformed(f"the transport header states {length} bytes, but {len(raw)} follow")
    return raw


def _read_raw(raw: bytes) -> QuoteForm:
    """Check every length of a raw quote up to its last byte."""
    try:
        return _snp(raw) if starts_snp_report(raw) else _follow(ByteReader(raw, "little"), raw)
    except LayoutError as failure:
        raise malformed(str(failure)) from None


def _snp(raw: bytes) -> QuoteForm:
    report, table = raw[:SNP_REPORT], raw[SNP_REPORT:]
    read_snp_report(report)
    read_table(table)
    return QuoteForm(raw, Tee.SNP, table)


def _follow(fields: ByteReader, raw: bytes) -> QuoteForm:
    version, key_type, tee, qe_svn, pce_svn = _HEADER.unpack(fields.take(12, "header"))
    fields.take(_HEADER_LENGTH - _HEADER.size, "header")
    if key_type != _ECDSA_P256:
        raise malformed("its attestation key is not ECDSA P-256")
    match version, tee:
        case 3, 0:
            if not (qe_svn and pce_svn):
                raise malformed("its QE and PCE versions must not be 0")
            fields.take(_SGX_REPORT, "report")
            return QuoteForm(raw, Tee.SGX, _sgx_chain(_signature_data(fields)))
        case 4, 0x81:
            fields.take(_TDX_REPORT_10, "report")
        case 5, 0x81:
            _take_tdx_body(fields)
        case _:
            raise malformed("it is not a quote of SGX (3), TDX (4, 5), or report of SNP (2, 3, 5)")
    return QuoteForm(raw, Tee.TDX, _tdx_chain(_signature_data(fields)))


def _take_tdx_body(fields: ByteReader) -> None:
    kind = fields.number(2, "body type")
    size = fields.number(4, "body size")
    if _TDX_BODIES.get(kind) != size:
        raise malformed("its body size does not fit its body type")
    fields.take(size, "report")


def _signature_data(fields: ByteReader) -> ByteReader:
    length = fields.number(4, "signature length")
    data = fields.take(length, "signature data")
    fields.finish("signature data")
    return ByteReader(data, "little")


def _sgx_chain(fields: ByteReader) -> bytes:
    fields.take(_SIGNATURE_AND_KEY, "signature")
    return _certified_chain(fields)


def _tdx_chain(fields: ByteReader) -> bytes:
    fields.take(_SIGNATURE_AND_KEY, "signature")
    if fields.number(2, "certification type") != _QE_REPORT_DATA:
        raise malformed("its certification data are not of type 6")
    inner = ByteReader(fields.framed(4, "certification data"), "little")
    fields.finish("certification data")
    return _certified_chain(inner)


def _certified_chain(fields: ByteReader) -> bytes:
    fields.take(_QE_REPORT_AND_SIGNATURE, "QE report")
    fields.framed(2, "authentication data")
    if fields.number(2, "certification type") != _CHAIN_PEM:
        raise malformed("it does not carry its PCK certificate chain (type 5)")
    chain = fields.framed(4, "certificate chain")
    fields.finish("certificate chain")
    return chain

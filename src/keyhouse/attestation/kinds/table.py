"""The table of the kinds of evidence: how each kind is read and verified.

Data of one kind never counts for another kind.

The kind of platform selects the collateral of a quote. The PCK certificate in the quote states this
kind. The certificate is authentic only if its chain leads to the pinned root. Before the check of
this chain, nothing in the certificate is read, and nothing is fetched.
"""

import functools
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

import msgspec
from cryptography import x509

from keyhouse.attestation.collateral.amd import AmdCollateral
from keyhouse.attestation.collateral.bundle import Collateral
from keyhouse.attestation.collateral.facts import (
    Mark,
    PlatformKind,
    authority_kind,
    marks_of_bundle,
)
from keyhouse.attestation.collateral.signatures import issued_pck_chain, require_vendor_root
from keyhouse.attestation.errors import QuoteProblem, QuoteRefusedError, refusal
from keyhouse.attestation.kinds.dcap.form import (
    add_transport_header,
    has_transport_header,
    read_dcap_form,
    read_dcap_report,
    without_transport_header,
)
from keyhouse.attestation.kinds.snp.authority import Roots
from keyhouse.attestation.kinds.snp.form import SNP_VERSIONS
from keyhouse.attestation.kinds.snp.report import read_snp_claims, read_snp_form
from keyhouse.attestation.quote.report import MAX_QUOTE, QuoteForm, Report, Tee, Verdict, malformed
from keyhouse.base.byte_reader import LayoutError, der_elements


class Anchors(msgspec.Struct, frozen=True):
    """The pinned root certificates, DER: Intel's, and those of AMD by line of processors."""

    intel: bytes
    amd: Roots


class EvidenceKind(msgspec.Struct, frozen=True):
    """The functions that read and verify a kind of evidence.

    ``versions``: the numbers in the first four bytes of a quote of this kind, little-endian. The
    reader of SGX and TDX gets all quotes with other numbers, and refuses what is not a quote.
    ``collateral`` is the type of the collateral that ``verify`` needs.
    """

    versions: tuple[int, ...]
    read_form: Callable[[bytes], QuoteForm]  # raises ``LayoutError`` or ``QuoteRefusedError``
    read_report: Callable[[QuoteForm], Report]  # verifies nothing
    collateral: type[Any]
    verify: Callable[[QuoteForm, Any, Anchors, datetime], Verdict]
    marks: Callable[[Verdict, Any], dict[str, Mark]]  # the age of the collateral


# The verifiers are imported with the first quote, or a second after the start. A start needs none.


def _verify_dcap(form: QuoteForm, collateral: Any, anchors: Anchors, at: datetime) -> Verdict:
    from keyhouse.attestation.kinds.dcap.verify import verify_dcap

    return verify_dcap(form, collateral, anchors.intel, at)


def _verify_snp(form: QuoteForm, collateral: Any, anchors: Anchors, at: datetime) -> Verdict:
    from keyhouse.attestation.kinds.snp.verify import verify_snp

    return verify_snp(form, collateral, anchors.amd, at)


def _marks_of_amd(verdict: Verdict, _: Any) -> dict[str, Mark]:
    from keyhouse.attestation.kinds.snp.verify import marks_of_amd

    return marks_of_amd(verdict)


_DCAP: Final = EvidenceKind(
    versions=(),
    read_form=read_dcap_form,
    read_report=read_dcap_report,
    collateral=Collateral,
    verify=_verify_dcap,
    marks=lambda _, collateral: marks_of_bundle(collateral),
)

KINDS: Final[Mapping[Tee, EvidenceKind]] = {
    Tee.SNP: EvidenceKind(
        versions=SNP_VERSIONS,
        read_form=read_snp_form,
        read_report=read_snp_claims,
        collateral=AmdCollateral,
        verify=_verify_snp,
        marks=_marks_of_amd,
    ),
    Tee.SGX: _DCAP,
    Tee.TDX: _DCAP,
}

_BY_VERSION: Final = {version: kind for kind in KINDS.values() for version in kind.versions}


def kind_of(quote: bytes) -> EvidenceKind:
    """Return the kind of evidence of ``quote``, from its first bytes alone."""
    return _BY_VERSION.get(int.from_bytes(quote[:4], "little"), _DCAP)


def read_form(quote: bytes) -> QuoteForm:
    """Return the parts of ``quote``, after its transport header if there is such a header.

    The lengths in the quote are checked up to its last byte.

    Raises ``QuoteRefusedError`` for any bytes except one whole quote of a known kind. Source:
    ``docs/reference/evidence-quotes.md``, "Bytes of an SGX quote".
    """
    if not quote:
        raise malformed("the quote is empty")
    if len(quote) > MAX_QUOTE:
        raise malformed(f"the quote has more than {MAX_QUOTE} bytes")
    if not has_transport_header(quote):
        return _read_raw(quote)
    form = _read_raw(without_transport_header(quote))
    if form.tee is not Tee.SGX:
        raise malformed("only SGX quotes have a transport header")
    return form


def read_report(form: QuoteForm) -> Report:
    """Return the report in ``form``, a quote of any kind. No signature is verified."""
    return KINDS[form.tee].read_report(form)


def add_header(raw: bytes) -> bytes:
    """Return the raw SGX quote ``raw`` with the 16-byte transport header."""
    if _read_raw(raw).tee is not Tee.SGX:
        raise malformed("only SGX quotes have a transport header")
    return add_transport_header(raw)


def in_transport(raw: bytes) -> bytes:
    """Return a raw quote in the form of the interface: an SGX quote gets its transport header."""
    return add_transport_header(raw) if read_form(raw).tee is Tee.SGX else raw


def _read_raw(raw: bytes) -> QuoteForm:
    """Return the parts of a raw quote, after a check of all lengths up to the last byte."""
    try:
        return kind_of(raw).read_form(raw)
    except LayoutError as failure:
        raise malformed(str(failure)) from None


class Verifier:
    """Verifies quotes under pinned root certificates, DER. Threads may share it.

    ``root_ca``: the root for quotes of SGX and TDX. ``amd_roots``: the roots of AMD by line of
    processors; without them its reports are refused. Raises ``ConfigurationRefusedError`` if
    ``root_ca`` is not a root certificate.
    """

    def __init__(self, root_ca: bytes, amd_roots: Roots | None = None) -> None:
        require_vendor_root(root_ca)
        self._anchors = Anchors(root_ca, amd_roots or {})

    def load(self) -> None:
        """Load the verifiers and the quote library, so that the first quote does not wait."""
        from keyhouse.attestation.kinds.dcap.verify import library
        from keyhouse.attestation.kinds.snp import verify as _  # noqa: F401

        library(self._anchors.intel)

    def verify(self, quote: bytes, collateral: Collateral | AmdCollateral, at: datetime) -> Verdict:
        """Return the verdict of ``quote`` (raw, or with the 16-byte header) at the time ``at``.

        For any bytes, the only possible exception is ``QuoteRefusedError`` with its reason. ``at``
        is a time with a zone. The caller still has to check TCB status and identity
        (``appraisal``).
        """
        if at.tzinfo is None:
            raise ValueError("the time of verification has no zone: pass a time with a zone")
        form = read_form(quote)
        kind = KINDS[form.tee]
        if not isinstance(collateral, kind.collateral):
            raise refusal(QuoteProblem.WRONG_PLATFORM)
        return kind.verify(form, collateral, self._anchors, at)


_SGX_EXTENSION = x509.ObjectIdentifier("1.2.840.113741.1.13.1")
_FMSPC_OID = bytes.fromhex("2a864886f84d010d0104")  # 1.2.840.113741.1.13.1.4
_FMSPC_BYTES = 6  # Intel's PCK certificate profile
_SEQUENCE, _OBJECT_ID, _OCTETS = 0x30, 0x06, 0x04


def platform_kind(quote: bytes, root_ca: bytes) -> PlatformKind:
    """Return the kind of platform in ``quote`` (raw, or with the 16-byte header).

    The PCK chain is verified: it ends in ``root_ca``, DER, and each certificate is signed by the
    next. The quote itself is not verified. Raises ``QuoteRefusedError``. Source: Intel, "SGX PCK
    Certificate".
    """
    form = read_form(quote)
    return _kind(form.tee, issued_pck_chain(form.chain, root_ca))


@functools.lru_cache(maxsize=1024)
def _kind(tee: Tee, chain: tuple[bytes, ...]) -> PlatformKind:
    pck, authority, _ = chain
    try:
        fmspc = _fmspc(_sgx_extension(x509.load_der_x509_certificate(pck)))
        ca = authority_kind(x509.load_der_x509_certificate(authority))
    # The exceptions of a parser vary and may contain the bytes.
    except Exception:  # noqa: BLE001
        raise QuoteRefusedError(
            QuoteProblem.CHAIN,
            "the quote's PCK certificate does not state the kind of its platform",
            hint="try a newer version of Keyhouse, because this version cannot read this form of"
            " certificate",
        ) from None
    return PlatformKind(tee, fmspc, ca)


def _sgx_extension(certificate: x509.Certificate) -> bytes:
    value = certificate.extensions.get_extension_for_oid(_SGX_EXTENSION).value
    if not isinstance(value, x509.UnrecognizedExtension):
        raise TypeError("the SGX extension of the PCK certificate does not have Intel's form")
    return value.value


def _fmspc(extension: bytes) -> str:
    ((tag, entries),) = der_elements(extension)
    found = []
    for _, entry in der_elements(entries) if tag == _SEQUENCE else ():
        (id_tag, object_id), (value_tag, value) = der_elements(entry)
        if (id_tag, value_tag, object_id) == (_OBJECT_ID, _OCTETS, _FMSPC_OID):
            found.append(value)
    (fmspc,) = found
    if len(fmspc) != _FMSPC_BYTES:
        raise ValueError(
            f"the FMSPC in the PCK certificate has {len(fmspc)} bytes, expected {_FMSPC_BYTES}"
        )
    return fmspc.hex()

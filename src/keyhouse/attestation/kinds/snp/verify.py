"""Verifies a report of SEV-SNP, separately from quotes of SGX and TDX.

1. Find the certificate of the report's key (VCEK or VLEK), beside the report or in the collateral.
2. Find the certificate of its issuer (ASK or ASVK), issued by a pinned root (ARK). The issuer
   states the line of processors. A report of version 3 or 5 must state the same line.
3. Verify that the issuer signed the key's certificate, that all are valid now, and that the root's
   newest valid revocation list does not revoke the issuer. Without a list nothing is accepted.
4. Verify that certificate and report state the same chip and firmware (``CHIP_ID``,
   ``REPORTED_TCB``).
5. Verify the signature of the report.
6. Verify that the guest policy can be trusted.
"""

import functools
from datetime import UTC, datetime

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from keyhouse.attestation.collateral.amd import AmdCollateral
from keyhouse.attestation.collateral.facts import Mark, marks_of_amd_list
from keyhouse.attestation.errors import QuoteProblem, QuoteRefusedError, refusal
from keyhouse.attestation.kinds.snp.authority import (
    Authority,
    Endorsement,
    Roots,
    find_authority,
    newest_list,
    read_endorsement,
    require_issued,
)
from keyhouse.attestation.kinds.snp.form import SNP_REPORT, SnpCertificate, read_table
from keyhouse.attestation.kinds.snp.report import SnpMeasurements, SnpReport, read_snp_report
from keyhouse.attestation.quote.report import Freshness, QuoteForm, Verdict, malformed
from keyhouse.base.byte_reader import LayoutError

_CHIP_ID = 64  # bytes, by AMD's SEV-SNP ABI


def verify_snp(form: QuoteForm, collateral: AmdCollateral, roots: Roots, at: datetime) -> Verdict:
    """Return the verdict of a report that verifies at ``at`` under a root of ``roots``.

    Raises ``QuoteRefusedError``.
    """
    report, endorsement, authority = require_endorsed(form, collateral, roots, at)
    revoked = newest_list(collateral.lists, authority, at)
    report.measured.require_sound()
    return Verdict(
        report_data=report.report_data,
        debug=False,
        tee=form.tee,
        tcb_status=None,
        advisories=(),
        tcb_date=None,
        fmspc=b"",
        ppid=report.measured.chip_id,
        freshness=_freshness(revoked, endorsement, authority),
        measurements=report.measured,
    )


def require_endorsed(
    form: QuoteForm, collateral: AmdCollateral, roots: Roots, at: datetime
) -> tuple[SnpReport, Endorsement, Authority]:
    """Return the report of ``form``, with the certificate of its key and the issuing authority.

    All three verify up to a root of ``roots``, and the certificates are valid at ``at``. Revocation
    is not checked. Raises ``QuoteRefusedError``.
    """
    beside = read_table(form.chain)
    claimed = read_snp_report(form.raw[:SNP_REPORT])
    _require_chip(claimed.measured)
    endorsement = find_endorsement(claimed.measured, beside, collateral)
    issuers = [beside[SnpCertificate.ASK]] if SnpCertificate.ASK in beside else []
    authority = find_authority(
        endorsement.issuer,
        claimed.measured.signing_key,
        (*issuers, *_kept(collateral).others),
        roots,
    )
    if beside.get(SnpCertificate.ARK, roots[authority.product]) != roots[authority.product]:
        raise refusal(QuoteProblem.CHAIN)
    _require_certified(endorsement, authority, at)
    try:
        report = read_snp_report(form.raw[:SNP_REPORT], authority.product)
    except LayoutError as failure:
        raise malformed(str(failure)) from None
    _require_same_platform(report.measured, endorsement)
    try:
        signature = encode_dss_signature(report.r, report.s)
        endorsement.key.verify(signature, report.signed, ec.ECDSA(hashes.SHA384()))
    except Exception:  # noqa: BLE001 - InvalidSignature, or what the numbers make it raise
        raise refusal(QuoteProblem.SIGNATURE) from None
    return report, endorsement, authority


def marks_of_amd(verdict: Verdict) -> dict[str, Mark]:
    """Return the mark (number and date) of AMD's revocation list behind ``verdict``."""
    vm = verdict.measurements
    product = vm.product if isinstance(vm, SnpMeasurements) else ""
    return marks_of_amd_list(product, verdict.freshness)


def _require_chip(claimed: SnpMeasurements) -> None:
    if claimed.signing_key == "VCEK" and not any(claimed.chip_id):
        raise QuoteRefusedError(
            QuoteProblem.WRONG_PLATFORM,
            "the quote does not verify: the platform hides its CHIP_ID, so no VCEK can match",
            hint="turn MASK_CHIP_ID off on the host, or let the host use a VLEK for reports",
        )


def find_endorsement(
    claimed: SnpMeasurements, beside: dict[SnpCertificate, bytes], collateral: AmdCollateral
) -> Endorsement:
    """Return the certificate for the key of the report ``claimed``; nothing is verified.

    The certificate is in ``beside``, the table after the report, or in ``collateral``. Raises
    ``QuoteRefusedError`` without a certificate.
    """
    kind = SnpCertificate[claimed.signing_key]
    others = {SnpCertificate.VCEK, SnpCertificate.VLEK} - {kind}
    if others & beside.keys():
        raise refusal(QuoteProblem.WRONG_PLATFORM)
    if kind in beside:
        given = _read(beside[kind])
        if given is None:
            raise refusal(QuoteProblem.CHAIN)
        return given
    for found in _kept(collateral).endorsements:
        if found.kind == f"SEV-{kind.name}" and _fits(claimed, found):
            return found
    raise QuoteRefusedError(
        QuoteProblem.CHAIN,
        f"the quote does not verify: the report has no {kind.name} certificate,"
        " and the collateral has none for its chip and firmware",
        hint="let the host send certificates with reports; or fetch the certificate of the chip"
        " from AMD, and name its file in --amd-collateral",
    )


class _KnownCertificates(msgspec.Struct, frozen=True):
    """The certificates in the collateral.

    ``endorsements`` are the certificates of signing keys; ``others`` include their issuers.
    """

    endorsements: tuple[Endorsement, ...]
    others: tuple[bytes, ...]


# Cached for each collateral, because a site may keep the certificates of a thousand chips.
@functools.lru_cache(maxsize=4)
def _kept(collateral: AmdCollateral) -> _KnownCertificates:
    read = [(der, _read(der)) for der in collateral.certificates]
    return _KnownCertificates(
        tuple(found for _, found in read if found is not None),
        tuple(der for der, found in read if found is None),
    )


def _read(der: bytes) -> Endorsement | None:
    """Return the content of the VCEK or VLEK certificate ``der``; None for any other bytes."""
    try:
        return read_endorsement(der)
    # The bytes are not authenticated, so a reader may raise any exception.
    except Exception:  # noqa: BLE001
        return None


def _require_certified(endorsement: Endorsement, authority: Authority, at: datetime) -> None:
    try:
        require_issued(endorsement.signed, endorsement.signature, authority.issuer)
    except Exception:  # noqa: BLE001 - see above
        raise refusal(QuoteProblem.CHAIN) from None
    authority.require_at(at)
    if at > endorsement.ends:
        raise refusal(QuoteProblem.EXPIRED)
    if at < endorsement.begins:
        raise refusal(QuoteProblem.NOT_YET_VALID)


def _require_same_platform(report: SnpMeasurements, endorsement: Endorsement) -> None:
    product, _, _ = endorsement.product.partition("-")
    named = endorsement.kind == f"SEV-{report.signing_key}" and product == report.product
    if not (named and _fits(report, endorsement)):
        raise QuoteRefusedError(
            QuoteProblem.WRONG_PLATFORM,
            f"the quote does not verify: the {report.signing_key} certificate and the report are"
            " of different chips or of different firmware",
            hint="use the certificate of the chip and the firmware that made the report",
        )


def _fits(report: SnpMeasurements, endorsement: Endorsement) -> bool:
    """Return whether ``endorsement`` is for the chip and the firmware of ``report``."""
    if endorsement.tcb != report.reported_tcb:
        return False
    if report.signing_key == "VLEK":
        return not endorsement.chip and bool(endorsement.provider)
    whole = endorsement.chip.ljust(_CHIP_ID, b"\0")
    return bool(endorsement.chip) and not endorsement.provider and whole == report.chip_id


def _freshness(
    revoked: x509.CertificateRevocationList, endorsement: Endorsement, authority: Authority
) -> Freshness:
    ends = (
        revoked.next_update_utc or revoked.last_update_utc,
        endorsement.ends,
        authority.issuer.not_valid_after_utc,
        authority.root.not_valid_after_utc,
    )
    return Freshness(
        tcb_evaluation_number=0,
        pck_crl_number=0,
        root_crl_number=_number(revoked),
        issued=revoked.last_update_utc.astimezone(UTC),
        expires=min(ends).astimezone(UTC),
    )


def _number(revoked: x509.CertificateRevocationList) -> int:
    try:
        return revoked.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number
    except x509.ExtensionNotFound:
        return 0

"""Verifies a report of SEV-SNP, on a path of its own beside that of SGX and TDX.

1. The certificate of its key (VCEK or VLEK): beside the report, or in the collateral.
2. That of its issuer (ASK or ASVK), issued by one of the pinned roots (ARK): it says the line of
   processors. Those that a report of version 3 or 5 says must be the same.
3. The issuer signed the key's certificate, all are in their time, and the newest revocation list
   of the root, in its time too, does not revoke the issuer. Without a list nothing is accepted.
4. What the certificate says of chip and firmware is what the report says (``CHIP_ID``,
   ``REPORTED_TCB``).
5. The key signed the report.
6. The guest policy is one that can be trusted.
"""

import functools
from datetime import UTC, datetime

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from keyhouse.attestation.collateral.amd import AmdCollateral
from keyhouse.attestation.errors import QuoteProblem, QuoteRefusedError, refusal
from keyhouse.attestation.quote.form import QuoteForm, malformed
from keyhouse.attestation.quote.snp import (
    SnpMeasurements,
    SnpReport,
    read_snp_report,
    require_sound_snp,
)
from keyhouse.attestation.quote.snp_form import SNP_REPORT, SnpCertificate, read_table
from keyhouse.attestation.quote.verdict import Freshness, Verdict
from keyhouse.attestation.snp.authority import (
    Authority,
    Endorsement,
    Roots,
    find_authority,
    newest_list,
    read_endorsement,
    require_issued,
)
from keyhouse.base.byte_reader import LayoutError
from keyhouse.wire.snp import PRODUCTS

_CHIP_ID = 64


def verify_snp(form: QuoteForm, collateral: AmdCollateral, roots: Roots, at: datetime) -> Verdict:
    """Return what a report says, if it verifies at ``at`` under one of ``roots``.

    Raises ``QuoteRefusedError``.
    """
    report, endorsement, authority = require_endorsed(form, collateral, roots, at)
    revoked = newest_list(collateral.lists, authority, at)
    require_sound_snp(report.measured)
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
        snp=report.measured,
    )


def require_endorsed(
    form: QuoteForm, collateral: AmdCollateral, roots: Roots, at: datetime
) -> tuple[SnpReport, Endorsement, Authority]:
    """Return the report, signed by a key that AMD certified; revocation is not looked at.

    Raises ``QuoteRefusedError``.
    """
    beside = read_table(form.chain)
    said = read_snp_report(form.raw[:SNP_REPORT])
    _require_chip(said.measured)
    endorsement = _endorsement(said.measured, beside, collateral)
    issuers = [beside[SnpCertificate.ASK]] if SnpCertificate.ASK in beside else []
    authority = find_authority(
        endorsement.issuer,
        said.measured.signing_key,
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


def claimed_snp(form: QuoteForm, collateral: AmdCollateral | None = None) -> SnpMeasurements:
    """Return what a report says; nothing is verified.

    The product of one of version 2 is what the certificate of its key names, as it must if the
    report verifies; "" without such a certificate, or if the product is unknown.
    """
    said = read_snp_report(form.raw[:SNP_REPORT]).measured
    if said.product:
        return said
    try:
        kept = collateral or AmdCollateral()
        named, _, _ = _endorsement(said, read_table(form.chain), kept).product.partition("-")
    except QuoteRefusedError:
        return said
    return msgspec.structs.replace(said, product=named if named in PRODUCTS else "")


def _require_chip(said: SnpMeasurements) -> None:
    if said.signing_key == "VCEK" and not any(said.chip_id):
        raise QuoteRefusedError(
            QuoteProblem.WRONG_PLATFORM,
            "the quote does not verify: its platform hides its CHIP_ID, so no VCEK can be its own",
            hint="turn MASK_CHIP_ID off on the host, or let it sign reports with a VLEK",
        )


def _endorsement(
    said: SnpMeasurements, beside: dict[SnpCertificate, bytes], collateral: AmdCollateral
) -> Endorsement:
    """Return the certificate of the key that signed the report."""
    kind = SnpCertificate[said.signing_key]
    others = {SnpCertificate.VCEK, SnpCertificate.VLEK} - {kind}
    if others & beside.keys():
        raise refusal(QuoteProblem.WRONG_PLATFORM)
    if kind in beside:
        given = _read(beside[kind])
        if given is None:
            raise refusal(QuoteProblem.CHAIN)
        return given
    for found in _kept(collateral).endorsements:
        if found.kind == f"SEV-{kind.name}" and _fits(said, found):
            return found
    raise QuoteRefusedError(
        QuoteProblem.CHAIN,
        f"the quote does not verify: it carries no {kind.name} certificate,"
        " and none in the collateral is of its chip and firmware",
        hint="let the host give certificates beside reports, or fetch that of the chip from AMD",
    )


class _Kept(msgspec.Struct, frozen=True):
    """The certificates of keys in the collateral, and all others, which issuers are among."""

    endorsements: tuple[Endorsement, ...]
    others: tuple[bytes, ...]


# Once for each collateral: a site may keep the certificates of a thousand chips.
@functools.lru_cache(maxsize=4)
def _kept(collateral: AmdCollateral) -> _Kept:
    read = [(der, _read(der)) for der in collateral.certificates]
    return _Kept(
        tuple(found for _, found in read if found is not None),
        tuple(der for der, found in read if found is None),
    )


def _read(der: bytes) -> Endorsement | None:
    """Return what the certificate of a key says; None for any other bytes."""
    try:
        return read_endorsement(der)
    # Bytes that are not authenticated: what they make a reader raise may be anything.
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
            f"the quote does not verify: its {report.signing_key} certificate is of another chip"
            " or other firmware than its report",
            hint="use the certificate of the chip and the firmware that made the report",
        )


def _fits(report: SnpMeasurements, endorsement: Endorsement) -> bool:
    """Tell whether a certificate is for the chip and the firmware of ``report``."""
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

"""The section about a quote, copied field by field from its explanation."""

from keyhouse.attestation import Verdict
from keyhouse.attestation.kinds.snp.report import SnpMeasurements
from keyhouse.cli.attest.quote_explanation import Explanation
from keyhouse.cli.doctor.hardware.report import QuoteSection


def quote_section(explanation: Explanation) -> QuoteSection:
    """Return the shareable statements of a quote.

    PPID, CHIP_ID, report data, measurements and signer stay out: they identify a machine, a build
    or an owner.
    """
    claims, verdict, failure = explanation.claims, explanation.verdict, explanation.failure
    if verdict is None:
        reason = failure.reason if failure is not None else "not-verified"
        return QuoteSection(outcome="failed", reason=reason, tee=claims.tee, debug=claims.debug)
    return _verified(verdict)


def _verified(verdict: Verdict) -> QuoteSection:
    freshness, vm = verdict.freshness, verdict.measurements
    snp = vm if isinstance(vm, SnpMeasurements) else None
    return QuoteSection(
        outcome="passed",
        tee=verdict.tee,
        verified=True,
        debug=verdict.debug,
        tcb_status=verdict.tcb_status or "",
        advisories=verdict.advisories,
        tcb_date=verdict.tcb_date,
        fmspc=verdict.fmspc.hex(),
        evaluation_number=freshness.tcb_evaluation_number,
        collateral_issued=freshness.issued,
        collateral_expires=freshness.expires,
        product=snp.product if snp is not None else "",
        reported_tcb=snp.reported_tcb if snp is not None else None,
    )

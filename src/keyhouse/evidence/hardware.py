"""Quotes of an evidence file: of its last checkpoint, and of starts."""

from collections.abc import Callable
from datetime import datetime

from keyhouse import attestation
from keyhouse.attestation.quote.binding import (
    head_report_data,
    require_report_data,
    start_report_data,
)
from keyhouse.base.errors import RefusedError
from keyhouse.evidence.bundle import Evidence
from keyhouse.evidence.errors import EvidenceRefusedError, HistoryRefusedError, Step, refused_at
from keyhouse.evidence.history import Gap
from keyhouse.evidence.milestones import Milestone, date_of
from keyhouse.evidence.pins import Pins
from keyhouse.transparency.leaf import Started


def vouched_head(evidence: Evidence, pins: Pins, last: Milestone) -> attestation.Verdict:
    """Return what the quote of the last checkpoint says; it is of the code that is pinned.

    Raises ``EvidenceRefusedError``.
    """
    head = evidence.head
    with refused_at(Step.HARDWARE):
        attestation.require_dcap(head.quote)
    collateral = evidence.objects.get(head.collateral)
    if collateral is None:
        raise EvidenceRefusedError(Step.HARDWARE, "the collateral of the quote is not in the file")
    with refused_at(Step.HARDWARE):
        verdict = attestation.Verifier(pins.vendor_root).verify(
            head.quote,
            attestation.read_collateral(collateral),
            last.time or date_of(evidence.made // 1_000_000),
        )
        attestation.appraise(
            verdict, pins.identity, binding=attestation.quote_binding(evidence.root, head.nonce)
        )
        wanted = head_report_data(evidence.root, head.nonce, last.text)
        require_report_data(verdict.report_data, wanted)
    return verdict


def vouched_start(
    objects: Callable[[str], bytes | None],
    root: bytes,
    pins: Pins | None,
    leaf: Started,
    before: tuple[int, bytes],
    time: datetime | None,
) -> tuple[Gap, ...]:
    """Return what is not proven of a start; its quote is of accepted code, at this place.

    ``objects``: those of the log; ``root``: the root certificate (DER). ``before``: size and root
    of the log before the leaf. ``time``: of the witnesses. Raises ``RefusedError`` and
    ``HistoryRefusedError``.
    """
    if pins is None or not leaf.quote:
        return ()  # told already
    quote = objects(leaf.quote)
    collateral = objects(leaf.collateral) if leaf.collateral else None
    if quote is None or collateral is None:
        return (Gap.NO_COLLATERAL,)
    given, claimed = attestation.read_collateral(collateral), date_of(leaf.time // 1_000_000)
    gaps: tuple[Gap, ...] = ()
    try:
        verdict = attestation.Verifier(pins.vendor_root).verify(quote, given, time or claimed)
    except attestation.QuoteRefusedError as error:  # witnesses may have seen it much later
        if error.reason is not attestation.QuoteProblem.EXPIRED or time is None:
            raise
        verdict = attestation.Verifier(pins.vendor_root).verify(quote, given, min(claimed, time))
        gaps = (Gap.CLAIMED_TIME,)
    instance = bytes.fromhex(leaf.instance)
    require_report_data(verdict.report_data, start_report_data(root, instance, *before))
    said = (leaf.unique, leaf.signer, leaf.product, leaf.svn)
    code = (verdict.mrenclave.hex(), verdict.mrsigner.hex(), verdict.isvprodid, verdict.isvsvn)
    if said != code:
        raise HistoryRefusedError("the quote of the start is of another code than the entry says")
    _require_accepted(verdict, pins, attestation.quote_binding(root))
    return gaps


def _require_accepted(verdict: attestation.Verdict, pins: Pins, binding: bytes) -> None:
    """Raise the refusal by the first identity unless one of those pinned is that of ``verdict``."""
    refusals = []
    for identity in (pins.identity, *pins.accepted):
        try:
            attestation.appraise(verdict, identity, binding=binding)
        except RefusedError as error:
            refusals.append(error)
        else:
            return
    raise refusals[0]

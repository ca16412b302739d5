"""Verify the quotes of an evidence file: of its last checkpoint, and of starts."""

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial

from keyhouse import attestation
from keyhouse.attestation import coordinator_appraisal
from keyhouse.attestation.quote.binding import (
    head_report_data,
    require_report_data,
    start_report_data,
)
from keyhouse.base.errors import RefusedError
from keyhouse.evidence.bundle import Evidence
from keyhouse.evidence.errors import EvidenceRefusedError, HistoryRefusedError, Step, refused_at
from keyhouse.evidence.gaps import Gap
from keyhouse.evidence.milestones import LATE, Milestone, date_of
from keyhouse.evidence.pins import Pins
from keyhouse.transparency.leaf import StartedLeaf


def vouched_head(evidence: Evidence, pins: Pins, last: Milestone) -> attestation.Verdict:
    """Return the verdict on the quote of the last checkpoint. The quote must prove the pinned code.

    ``last`` is this checkpoint. Collateral must be valid at the witnesses' time of ``last``, or
    without witnesses at ``evidence.made``. This time may be at most ``LATE`` after the verifier's
    clock. Raises ``EvidenceRefusedError``.
    """
    head = evidence.head
    with refused_at(Step.HARDWARE):
        time = last.time or date_of(evidence.made // 1_000_000)
    if time > pins.now + LATE:
        raise EvidenceRefusedError(
            Step.HARDWARE,
            f"the file was made at {time:%Y-%m-%d %H:%M:%S} UTC, which is in the future",
            hint="check the clock of this computer",
        )
    with refused_at(Step.HARDWARE):
        coordinator_appraisal.require_dcap(head.quote)
    collateral = evidence.objects.get(head.collateral)
    if collateral is None:
        raise EvidenceRefusedError(Step.HARDWARE, "the collateral of the quote is not in the file")
    with refused_at(Step.HARDWARE):
        verdict = attestation.Verifier(pins.vendor_root).verify(
            head.quote,
            attestation.read_collateral(collateral),
            time,
        )
        coordinator_appraisal.appraise(
            verdict, pins.identity, binding=attestation.quote_binding(evidence.root, head.nonce)
        )
        wanted = head_report_data(evidence.root, head.nonce, last.text)
        require_report_data(verdict.report_data, wanted)
    return verdict


def vouched_start(
    objects: Callable[[str], bytes | None],
    root: bytes,
    pins: Pins | None,
    leaf: StartedLeaf,
    before: tuple[int, bytes],
    time: datetime | None,
) -> tuple[Gap, ...]:
    """Verify that accepted code made the start in ``leaf``; return the checks that cannot be made.

    The leaf must state accepted code. Its quote, if present, must prove this code. Without
    ``pins``, nothing is verified here.

    ``objects`` returns an object of the log by its name. ``root`` is the root certificate (DER).
    ``before``: the number of earlier leaves, and the root of the tree over them. ``time``: the
    witnesses' time of the leaf; None without a quorum.

    Raises ``RefusedError`` and ``HistoryRefusedError``, also if the quote or the collateral that
    the leaf names is missing.
    """
    if pins is None:
        return ()  # without pins, the whole file has a gap
    _require_accepted([partial(_require_stated, leaf, each) for each in _identities(pins)])
    if not leaf.quote:
        if leaf.collateral:
            raise HistoryRefusedError("the entry of a start names collateral, but no quote")
        return (Gap.START_WITHOUT_QUOTE,)
    quote = _object(objects, "the quote", leaf.quote)
    if not leaf.collateral:
        return (Gap.START_WITHOUT_COLLATERAL,)
    collateral = _object(objects, "the collateral", leaf.collateral)
    verdict, gaps = _verify_quote(quote, collateral, pins, leaf, time)
    instance = bytes.fromhex(leaf.instance)
    require_report_data(verdict.report_data, start_report_data(root, instance, *before))
    if _code_of(leaf) != _code_of(verdict):
        raise HistoryRefusedError("the quote of a start shows other code than the entry states")
    binding = attestation.quote_binding(root)
    _require_accepted(
        [
            partial(coordinator_appraisal.appraise, verdict, each, binding=binding)
            for each in _identities(pins)
        ]
    )
    return gaps


def _verify_quote(
    quote: bytes, collateral: bytes, pins: Pins, leaf: StartedLeaf, time: datetime | None
) -> tuple[attestation.Verdict, tuple[Gap, ...]]:
    """Return the verdict on the quote of a start, at the witnesses' ``time``, and the gaps.

    Without ``time``, the claimed time in ``leaf`` counts. Witnesses may have seen the start after
    its collateral had expired. Then the earlier of ``time`` and claimed time counts, and the result
    has a gap.
    """
    verifier, bundle = (
        attestation.Verifier(pins.vendor_root),
        attestation.read_collateral(collateral),
    )
    claimed = date_of(leaf.time // 1_000_000)
    try:
        return verifier.verify(quote, bundle, time or claimed), ()
    except attestation.QuoteRefusedError as error:  # witnesses may have seen the start much later
        if error.reason is not attestation.QuoteProblem.EXPIRED or time is None:
            raise
        return verifier.verify(quote, bundle, min(claimed, time)), (Gap.START_AT_CLAIMED_TIME,)


def _object(objects: Callable[[str], bytes | None], what: str, name: str) -> bytes:
    raw = objects(name)
    if raw is None:
        raise HistoryRefusedError(
            f"the entry names {what} of the start, and the object {name} is missing",
            hint="request a complete file: the log of the deployment has this object",
        )
    return raw


def _identities(pins: Pins) -> tuple[attestation.ExpectedIdentity, ...]:
    return (pins.identity, *pins.accepted)


def _require_stated(leaf: StartedLeaf, identity: attestation.ExpectedIdentity) -> None:
    """Require that the code in ``leaf`` fits ``identity``.

    Leaves of confidential VMs state no code, so any such leaf fits the identity of a VM; the quote
    shows the code. Raises ``RefusedError`` for different code of an enclave, and
    ``HistoryRefusedError`` for an enclave where ``identity`` is of a VM.
    """
    if identity.vm is None:
        coordinator_appraisal.require_enclave(_code_of(leaf), identity)
    elif leaf.unique or leaf.signer:
        raise HistoryRefusedError(
            "an enclave made this start; the auditor's attestation file expects a confidential VM"
        )


def _code_of(stated: StartedLeaf | attestation.Verdict) -> coordinator_appraisal.EnclaveCode:
    if isinstance(stated, StartedLeaf):
        unique, signer = bytes.fromhex(stated.unique), bytes.fromhex(stated.signer)
        return coordinator_appraisal.EnclaveCode(unique, signer, stated.product, stated.svn)
    code = stated.mrenclave, stated.mrsigner, stated.isvprodid, stated.isvsvn
    return coordinator_appraisal.EnclaveCode(*code)


def _require_accepted(appraisals: Sequence[Callable[[], None]]) -> None:
    """Call ``appraisals`` until an appraisal accepts. If all refuse, raise the first refusal."""
    refusals: list[RefusedError | HistoryRefusedError] = []
    for appraise in appraisals:
        try:
            appraise()
        except (RefusedError, HistoryRefusedError) as error:
            refusals.append(error)
        else:
            return
    raise refusals[0]

"""Explain a quote: its contents, its verification at a time, and the packages that admit it."""

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from keyhouse.attestation import (
    AmdCollateral,
    Collateral,
    QuoteRefusedError,
    Verdict,
    Verifier,
    read_form,
)
from keyhouse.attestation.appraisal import Mismatch, Rule, mismatches
from keyhouse.attestation.kinds.table import kind_of, read_report
from keyhouse.attestation.quote.report import QuoteForm
from keyhouse.cli.attest.claims import claims_of
from keyhouse.wire.kinds import VM_KINDS
from keyhouse.wire.kinds.identity import VmIdentity

if TYPE_CHECKING:
    from keyhouse.manifest import Manifest

_OF_THE_PLATFORM = {Rule.TCB_STATUS, Rule.ADVISORIES}


class ReportClaims(msgspec.Struct, frozen=True, rename="camel"):
    """The contents of a quote's report, before a verification. Byte strings are in lower-case hex.

    A field is empty or 0 if the kind of TEE does not have it.
    """

    tee: str
    debug: bool
    report_data: str
    unique_id: str = msgspec.field(default="", name="uniqueID")
    signer_id: str = msgspec.field(default="", name="signerID")
    product_id: int = msgspec.field(default=0, name="productID")
    security_version: int = 0
    mrtd: str = ""
    rtmrs: tuple[str, ...] = ()


class VerificationFailure(msgspec.Struct, frozen=True):
    """The reason why a quote is not verified: a stable word, and texts for people."""

    reason: str
    message: str
    hint: str = ""


class Appraisal(msgspec.Struct, frozen=True, rename="camel"):
    """The decision of a package about a quote. ``marbles``: the marble types with this package.

    ``is_enclave`` is true if the package describes this enclave or confidential VM. If such a
    package refuses the quote, ``reasons`` has only the TCB status and advisories of the platform.
    """

    admitted: bool
    is_enclave: bool
    marbles: tuple[str, ...]
    reasons: tuple[Mismatch, ...]


class Explanation(msgspec.Struct, frozen=True, rename="camel"):
    """The contents of a quote, its verification for the time ``at``, and the packages' decisions.

    ``packages`` has the decisions by name of the package.
    """

    at: datetime
    claims: ReportClaims
    vm: VmIdentity | None  # None: an enclave
    service: str  # measurement of a service VM, hex
    verdict: Verdict | None  # None: the quote is not verified
    failure: VerificationFailure | None
    packages: dict[str, Appraisal]  # empty without a manifest, or without a verdict

    def as_json(self) -> dict[str, Any]:
        """Return the object for ``--json``."""
        return {
            "at": self.at,
            "verified": self.verdict is not None,
            "refused": self.failure,
            "quote": msgspec.to_builtins(self.claims) | self._vms(),
            "platform": None if self.verdict is None else _platform(self.verdict),
            "packages": self.packages,
        }

    def _vms(self) -> dict[str, Any]:
        vms: dict[str, Any] = {field.lower(): None for field in VM_KINDS}
        if self.vm is not None:
            vms[self.vm.FIELD.lower()] = self.vm
        first, *others = vms
        return {
            first: vms[first],
            "serviceTD": self.service,
            **{each: vms[each] for each in others},
        }


class QuoteTrust(msgspec.Struct, frozen=True):
    """The roots (DER) and the collateral for the verification of a quote.

    ``root_ca`` is the root for SGX and TDX. ``amd_roots`` has AMD's roots by product line. A quote
    without collateral for its kind of TEE stays unverified.
    """

    root_ca: bytes
    collateral: Collateral | None
    amd_roots: Mapping[str, bytes]
    amd_collateral: AmdCollateral | None


def explain_quote(
    quote: bytes, trust: QuoteTrust, at: datetime, manifest: "Manifest | None"
) -> Explanation:
    """Return the contents of ``quote``, its verification for the time ``at``, and the decisions.

    Each package of ``manifest`` decides. If ``manifest`` is None, there are no decisions. Raises
    ``QuoteRefusedError`` only if the bytes are not a whole quote.
    """
    form = read_form(quote)
    claims = claims_of(form, trust.amd_collateral)
    vm = None if claims is None else claims.identity
    service = b"" if claims is None else claims.service
    facts = at, _report_claims(form), vm, service.hex()
    try:
        verdict = _verdict(quote, trust, at)
    except QuoteRefusedError as refused:
        why = VerificationFailure(refused.reason, refused.message, refused.hint)
        return Explanation(*facts, None, why, {})
    if verdict is None:
        why = VerificationFailure(
            "no-collateral",
            "the quote was not verified: no option names collateral for this kind of quote",
            "pass --collateral for a quote of SGX or TDX, or --amd-collateral for SEV-SNP",
        )
        return Explanation(*facts, None, why, {})
    packages = {} if manifest is None else _appraisals(verdict, manifest)
    return Explanation(*facts, verdict, None, packages)


def _verdict(quote: bytes, trust: QuoteTrust, at: datetime) -> Verdict | None:
    wanted = kind_of(quote).collateral
    given = (trust.collateral, trust.amd_collateral)
    collateral = next((each for each in given if isinstance(each, wanted)), None)
    if collateral is None:
        return None
    return Verifier(trust.root_ca, trust.amd_roots).verify(quote, collateral, at)


def _report_claims(form: QuoteForm) -> ReportClaims:
    report = read_report(form)
    shown = report.measured.in_hex()
    return ReportClaims(
        tee=form.tee,
        debug=report.debug,
        report_data=report.report_data.hex(),
        product_id=report.isvprodid,
        security_version=report.isvsvn,
        **{name: shown[name] for name in ("unique_id", "signer_id", "mrtd", "rtmrs")},
    )


def _platform(verdict: Verdict) -> dict[str, Any]:
    freshness = verdict.freshness
    return {
        "tcbStatus": verdict.tcb_status,
        "advisories": verdict.advisories,
        "tcbDate": verdict.tcb_date,
        "fmspc": verdict.fmspc.hex(),
        "ppid": verdict.ppid.hex(),
        "evaluationNumber": freshness.tcb_evaluation_number,
        "collateralIssued": freshness.issued,
        "collateralExpires": freshness.expires,
    }


def _appraisals(verdict: Verdict, manifest: "Manifest") -> dict[str, Appraisal]:
    appraisals = {}
    for name, package in manifest.packages.items():
        reasons = mismatches(verdict, package)
        appraisals[name] = Appraisal(
            admitted=not reasons,
            is_enclave=all(reason.rule in _OF_THE_PLATFORM for reason in reasons),
            marbles=tuple(
                sorted(marble for marble, it in manifest.marbles.items() if it.package == name)
            ),
            reasons=reasons,
        )
    return appraisals
